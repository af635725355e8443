//! Tests bodies of every kind that are designed to be expensive: four times the size must take about four times as
//! long, whatever the content. A loop over two of their lists would take sixteen times.
//!
//! What matters is the growth, not the response: most of these bodies are refused, and some are valid.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{APPLY, JSON_PATCH, MERGE, STRATEGIC, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDES: &str = "/apis/t.io/v1/namespaces/default/wides";
/// The number of parts in the smaller body; the larger one has four times as many.
const PARTS: usize = 1500;
/// The maximum growth: linear work takes four times as long, and somewhat longer with a sort or on a busy machine;
/// quadratic work takes sixteen times as long.
const GROWTH_MAX: u32 = 9;
/// Shorter times are not compared: a pause on the machine would look like growth.
const MEASURABLE: Duration = Duration::from_millis(60);
/// A case that grows too fast is measured again: other tests run at the same time.
const ATTEMPTS: usize = 4;

/// Returns an object with this many parts.
type Body = fn(usize) -> Value;

/// One expensive request.
struct Case {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    media: &'static str,
    /// The object that must exist before, and its collection.
    before: Option<(&'static str, Body)>,
    body: Body,
}

fn create(name: &'static str, path: &'static str, body: Body) -> Case {
    Case { name, method: "POST", path, media: "application/json", before: None, body }
}

fn patch(
    name: &'static str,
    path: &'static str,
    media: &'static str,
    before: (&'static str, fn(usize) -> Value),
    body: Body,
) -> Case {
    Case { name, method: "PATCH", path, media, before: Some(before), body }
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn map(count: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(entry).collect::<Map<_, _>>())
}

fn named(name: &str, fields: Value) -> Value {
    let mut object = fields;
    object["metadata"]["name"] = name.into();
    object
}

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    named("x", json!({"spec": spec}))
}

fn deployment(count: usize) -> Value {
    let env = list(count, |at| json!({"name": format!("v{at}"), "value": "1"}));
    named(
        "x",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}}}),
    )
}

fn of_containers(containers: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

fn definition(versions: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "others.u.io"},
        "spec": {"group": "u.io", "scope": "Namespaced", "versions": versions,
        "names": {"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"}}})
}

fn version(spec: &Value) -> Value {
    json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
        "properties": {"spec": spec}}}})
}

fn wide(spec: &Value) -> Value {
    json!({"apiVersion": "t.io/v1", "kind": "Wide", "metadata": {"name": "x"}, "spec": spec})
}

fn config_map(count: usize) -> Value {
    named("x", json!({"data": map(count, |at| (format!("k{at}"), json!("v")))}))
}

fn map_items(count: usize) -> Value {
    wide(&json!({"map": list(count, |at| json!({"k": format!("k{at}"), "v": "1"}))}))
}

/// Returns a kind with a list of every kind, and with rules that are expensive to evaluate.
fn wide_definition() -> Value {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"},
        "d": {"type": "string", "default": "d"}}, "required": ["k"]});
    let alternatives: Vec<_> = (0..30).map(|at| json!({"minLength": at})).collect();
    let allowed: Vec<_> = (0..300).map(|at| format!("e{at}")).collect();
    let mut definition = definition(&json!([version(&json!({"type": "object", "properties": {
        "map": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "any": {"type": "array", "items": {"type": "string", "anyOf": alternatives}},
        "enum": {"type": "array", "items": {"type": "string", "enum": allowed}},
        "pattern": {"type": "array", "items": {"type": "string", "pattern": "^(a|aa)+$"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}))]));
    definition["metadata"]["name"] = "wides.t.io".into();
    definition["spec"]["group"] = "t.io".into();
    definition["spec"]["names"] =
        json!({"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"});
    definition
}

fn creations() -> Vec<Case> {
    vec![
        create("many keys", MAPS, |n| config_map(4 * n)),
        create("many wrong labels", MAPS, |n| {
            named("x", json!({"metadata": {"labels": map(n, |at| (format!("-{at}"), json!("-")))}}))
        }),
        create("many owners that control", MAPS, |n| {
            let owner = |at: usize| json!({"apiVersion": "v1", "kind": "A", "name": format!("{at}"), "uid": format!("{at}"), "controller": true});
            named("x", json!({"metadata": {"ownerReferences": list(n, owner)}}))
        }),
        create("many equal owners", MAPS, |n| {
            let owner = |_| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"});
            named("x", json!({"metadata": {"ownerReferences": list(n, owner)}}))
        }),
        create("many finalizers", MAPS, |n| {
            named("x", json!({"metadata": {"finalizers": list(4 * n, |at| json!(format!("a/{at}")))}}))
        }),
        create("many managers", MAPS, |n| {
            let manager = |at: usize| {
                json!({"manager": format!("m{at}"), "operation": "Update", "apiVersion": format!("v{at}"),
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{at}"): {}}}})
            };
            named("x", json!({"metadata": {"managedFields": list(n, manager)}, "data": {"a": "b"}}))
        }),
        create("many containers", PODS, |n| {
            pod(json!({"containers": list(n, |at| json!({"name": format!("c{at}"), "image": "i"}))}))
        }),
        create("many equal containers", PODS, |n| {
            pod(json!({"containers": list(n, |_| json!({"name": "c", "image": "i"}))}))
        }),
        create("many variables", PODS, |n| {
            let variable = |at: usize| json!({"name": format!("v{at}"), "value": "$(a)"});
            pod(json!({"containers": [{"name": "c", "image": "i", "env": list(4 * n, variable)}]}))
        }),
        create("many equal variables", PODS, |n| {
            pod(
                json!({"containers": [{"name": "c", "image": "i", "env": list(4 * n, |_| json!({"name": "v"}))}]}),
            )
        }),
        create("many ports", PODS, |n| {
            let port = |at: usize| json!({"containerPort": 1 + at % 60_000, "hostPort": 1 + at % 60_000, "name": format!("p{at}")});
            pod(json!({"containers": [{"name": "c", "image": "i", "ports": list(n, port)}]}))
        }),
        create("many equal ports", PODS, |n| {
            let port = |at: usize| json!({"containerPort": 1, "hostPort": 1 + at % 60_000});
            pod(json!({"containers": [{"name": "c", "image": "i", "ports": list(n, port)}]}))
        }),
        create("many volumes and mounts", PODS, |n| {
            let volume = |at: usize| json!({"name": format!("v{at}"), "emptyDir": {}});
            let mount = |at: usize| json!({"name": format!("v{at}"), "mountPath": format!("/m{at}")});
            let device = |at: usize| json!({"name": format!("v{at}"), "devicePath": format!("/d{at}")});
            pod(json!({"volumes": list(n, volume), "containers": [{"name": "c", "image": "i",
                "volumeMounts": list(n, mount), "volumeDevices": list(n, device)}]}))
        }),
        create("many tolerations", PODS, |n| {
            pod(
                json!({"tolerations": list(4 * n, |at| json!({"key": format!("k{at}"), "operator": "Exists"}))}),
            )
        }),
        create("many claims", PODS, |n| {
            let claim = |at: usize| json!({"name": format!("c{at}"), "resourceClaimName": "r"});
            let used = |at: usize| json!({"name": format!("d{at}"), "request": format!("r{at}")});
            pod(json!({"resourceClaims": list(n, claim),
                "containers": [{"name": "c", "image": "i", "resources": {"claims": list(n, used)}}]}))
        }),
        create("many spreads", PODS, |n| {
            let spread = |at: usize| json!({"maxSkew": 1, "topologyKey": format!("k{at}"), "whenUnsatisfiable": "DoNotSchedule"});
            pod(json!({"topologySpreadConstraints": list(n, spread)}))
        }),
        create("a service of many ports", "/api/v1/namespaces/default/services", |n| {
            let port = |at: usize| json!({"name": format!("p{at}"), "port": 1 + at % 60_000});
            named("x", json!({"spec": {"ports": list(n, port)}}))
        }),
        create("many ingress rules", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", |n| {
            let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
            let rule = |at: usize| json!({"host": format!("h{at}"), "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}});
            named("x", json!({"spec": {"rules": list(n, rule)}}))
        }),
        create(
            "many network policy peers",
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            |n| {
                let peer = |at: usize| json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [format!("10.{}.0.0/16", at % 256)]}});
                named("x", json!({"spec": {"podSelector": {}, "ingress": [{"from": list(n, peer)}]}}))
            },
        ),
    ]
}

fn definitions() -> Vec<Case> {
    vec![
        create("many versions", DEFINITIONS, |n| {
            definition(&list(n / 2, |at| {
                let mut version = version(&json!({"type": "object"}));
                version["name"] = format!("v{at}").into();
                version["storage"] = (at == 0).into();
                version
            }))
        }),
        create("many properties", DEFINITIONS, |n| {
            let property = |at: usize| (format!("p{at}"), json!({"type": "string", "default": "x"}));
            definition(&json!([version(&json!({"type": "object", "properties": map(n, property)}))]))
        }),
        create("many wrong properties", DEFINITIONS, |n| {
            definition(&json!([version(
                &json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({})))})
            )]))
        }),
        create("many patterns", DEFINITIONS, |n| {
            let property =
                |at: usize| (format!("p{at}"), json!({"type": "string", "pattern": format!("^a{at}$")}));
            definition(&json!([version(&json!({"type": "object", "properties": map(n / 2, property)}))]))
        }),
        create("many keys of a list", DEFINITIONS, |n| {
            let keys = list(n, |at| json!(format!("k{at}")));
            let items = json!({"type": "object", "properties": map(n, |at| (format!("k{at}"), json!({"type": "string"})))});
            definition(&json!([version(
                &json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys})
            )]))
        }),
        create("many columns", DEFINITIONS, |n| {
            let column =
                |at: usize| json!({"name": format!("c{at}"), "type": "string", "jsonPath": ".spec.a"});
            let mut version = version(&json!({"type": "object"}));
            version["additionalPrinterColumns"] = list(n, column);
            definition(&json!([version]))
        }),
        create("many short names", DEFINITIONS, |n| {
            let mut definition = definition(&json!([version(&json!({"type": "object"}))]));
            definition["spec"]["names"]["shortNames"] = list(n, |at| json!(format!("s{at}")));
            definition
        }),
    ]
}

fn custom_objects() -> Vec<Case> {
    vec![
        create("items of a map", WIDES, map_items),
        create("equal items of a map", WIDES, |n| wide(&json!({"map": list(n, |_| json!({"k": "k"}))}))),
        create("items of a set", WIDES, |n| wide(&json!({"set": list(4 * n, |at| json!(format!("k{at}")))}))),
        create("alternatives for many items", WIDES, |n| wide(&json!({"any": list(n, |_| json!(""))}))),
        create("values that are not allowed", WIDES, |n| wide(&json!({"enum": list(n, |_| json!("x"))}))),
        create("texts that do not match", WIDES, |n| {
            wide(&json!({"pattern": list(n, |_| json!(format!("{}b", "a".repeat(60))))}))
        }),
        create("unknown fields below a long name", WIDES, |n| {
            wide(
                &json!({"map": [{"k": "a", "x".repeat(20 * n): 1}], "more": map(n, |at| (format!("u{at}"), json!(1)))}),
            )
        }),
    ]
}

fn patches() -> Vec<Case> {
    const MAP: &str = "/api/v1/namespaces/default/configmaps/x";
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/x";
    const WIDE: &str = "/apis/t.io/v1/namespaces/default/wides/x";
    const WIDE_APPLY: &str = "/apis/t.io/v1/namespaces/default/wides/x?fieldManager=me&force=true";
    const WIDE_CONFLICT: &str = "/apis/t.io/v1/namespaces/default/wides/x?fieldManager=other";
    vec![
        patch(
            "keys to retain",
            MAP,
            STRATEGIC,
            (MAPS, config_map),
            |n| json!({"data": {"$retainKeys": list(4 * n, |at| json!(format!("k{at}")))}}),
        ),
        patch("a list merged by key", DEPLOYMENT, STRATEGIC, (DEPLOYMENTS, deployment), |n| {
            let env = list(n, |at| json!({"name": format!("v{}", 2 * at), "value": "2"}));
            of_containers(&json!([{"name": "c", "env": env}]))
        }),
        patch("elements deleted by key", DEPLOYMENT, STRATEGIC, (DEPLOYMENTS, deployment), |n| {
            let env = list(n, |at| json!({"name": format!("v{at}"), "$patch": "delete"}));
            of_containers(&json!([{"name": "c", "env": env}]))
        }),
        patch("an order of elements", DEPLOYMENT, STRATEGIC, (DEPLOYMENTS, deployment), |n| {
            let order = list(n, |at| json!({"name": format!("v{}", n - at)}));
            of_containers(&json!([{"name": "c", "$setElementOrder/env": order}]))
        }),
        patch("orders of many lists", MAP, STRATEGIC, (MAPS, config_map), |n| {
            let mut fields = Map::new();
            for at in 0..n {
                fields.insert(format!("$setElementOrder/l{at}"), json!(["a"]));
                fields.insert(format!("l{at}"), json!(["a"]));
            }
            json!({ "data": fields })
        }),
        patch(
            "additions at the front",
            WIDE,
            JSON_PATCH,
            (WIDES, |n| wide(&json!({"free": {"l": list(n, |_| json!(1))}}))),
            |n| list(n.min(9000), |_| json!({"op": "add", "path": "/spec/free/l/0", "value": 1})),
        ),
        patch("tests of the whole", MAP, JSON_PATCH, (MAPS, config_map), |n| {
            list(n.min(9000), |_| json!({"op": "test", "path": "/data/k1", "value": "v"}))
        }),
        patch(
            "a merge of many keys",
            MAP,
            MERGE,
            (MAPS, config_map),
            |n| json!({"data": map(n, |at| (format!("k{at}"), if at % 2 == 0 { Value::Null } else { json!("w") }))}),
        ),
        patch("items applied", WIDE_APPLY, APPLY, (WIDES, map_items), |n| {
            wide(&json!({"map": list(n, |at| json!({"k": format!("k{}", n - at), "v": "2"}))}))
        }),
        patch(
            "a set applied",
            WIDE_APPLY,
            APPLY,
            (WIDES, |n| wide(&json!({"set": list(n, |at| json!(format!("k{at}")))}))),
            |n| wide(&json!({"set": list(n, |at| json!(format!("k{}", n - at)))})),
        ),
        patch("conflicts", WIDE_CONFLICT, APPLY, (WIDES, map_items), |n| {
            wide(&json!({"map": list(n, |at| json!({"k": format!("k{at}"), "v": "2"}))}))
        }),
    ]
}

/// Returns how long the request of a case takes with this many parts.
async fn time(plane: &TestServer, case: &Case, parts: usize) -> Duration {
    let object = case.before.map_or(case.path, |_| case.path).split('?').next().unwrap_or_default();
    if let Some((collection, make)) = case.before {
        let made = plane.post(collection, make(parts)).await;
        assert_eq!(made.code, 201, "{}: {:.300}", case.name, made.body.to_string());
    }
    let body = (case.body)(parts).to_string();
    let started = ProcessorTime::start();
    let answer = plane.raw(case.method, case.path, case.media, &body).await;
    let took = started.elapsed();
    // An object that grows too large to be stored is refused with Kubernetes' wording, after all the work has been
    // done.
    let is_too_large = answer.body["message"] == "etcdserver: request is too large";
    let is_answered = answer.code < 500 || is_too_large;
    assert!(is_answered, "{}: {} {:.300}", case.name, answer.code, answer.body.to_string());
    let left =
        if case.before.is_some() { object.to_owned() } else { format!("{}/{}", case.path, name_of(case)) };
    plane.patch(&left, MERGE, json!({"metadata": {"finalizers": null}})).await;
    plane.delete(&left).await;
    plane.until_gone(&left).await;
    took
}

fn name_of(case: &Case) -> &'static str {
    if case.path == DEFINITIONS { "others.u.io" } else { "x" }
}

async fn check(plane: &TestServer, case: &Case) {
    let mut measured = Vec::new();
    for _ in 0..ATTEMPTS {
        let (small, large) = (time(plane, case, PARTS).await, time(plane, case, 4 * PARTS).await);
        if large < MEASURABLE || large < small * GROWTH_MAX {
            return;
        }
        measured.push((small, large));
    }
    panic!("{}: four times the size takes {measured:?}", case.name);
}

async fn check_all(cases: Vec<Case>) {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, wide_definition()).await.expect(201);
    plane.until(WIDES, |answer| answer.code == 200).await;
    for case in &cases {
        check(&plane, case).await;
    }
}

#[tokio::test]
async fn creations_take_time_in_proportion() {
    check_all(creations()).await;
}

#[tokio::test]
async fn definitions_take_time_in_proportion() {
    check_all(definitions()).await;
}

#[tokio::test]
async fn custom_objects_take_time_in_proportion() {
    check_all(custom_objects()).await;
}

#[tokio::test]
async fn patches_take_time_in_proportion() {
    check_all(patches()).await;
}

/// A patch that names the same list repeatedly ends with a refusal.
#[tokio::test]
async fn a_list_named_again_and_again_is_refused() {
    let plane = TestServer::start().await;
    plane.post(DEPLOYMENTS, deployment(10_000)).await.expect(201);
    let again = list(10_000, |at| json!({"name": "c", "env": [{"name": format!("v{at}"), "value": "2"}]}));
    let path = format!("{DEPLOYMENTS}/x");
    let refused = plane.patch(&path, STRATEGIC, of_containers(&again)).await.expect(422);
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("more work than one request")),
        "{refused}"
    );
}

#[tokio::test]
async fn long_selectors_are_refused() {
    let plane = TestServer::start().await;
    let keys = |count: usize| (0..count).map(|at| format!("!k{at}")).collect::<Vec<_>>().join(",");
    plane.get(&format!("{MAPS}?labelSelector={}", keys(900))).await.expect(200);
    plane.get(&format!("{MAPS}?labelSelector={}", keys(1100))).await.expect(400);
    let fields =
        |count: usize| (0..count).map(|at| format!("metadata.name!=k{at}")).collect::<Vec<_>>().join(",");
    plane.get(&format!("{MAPS}?fieldSelector={}", fields(900))).await.expect(200);
    plane.get(&format!("{MAPS}?fieldSelector={}", fields(1100))).await.expect(400);
}
