//! Tests MutatingAdmissionWebhook and ValidatingAdmissionWebhook, with real TLS servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::webhook_server::{Behaviour, WebhookServer};
use super::{message, start_without, warnings};
use crate::processor_time::ProcessorTime;
use crate::test_server::{MERGE, TestServer};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

fn allow() -> Behaviour {
    Behaviour::Respond(json!({"allowed": true}))
}

/// Returns a response that adds a value to the data.
fn patch(operations: &Value) -> Behaviour {
    let patch = STANDARD.encode(operations.to_string());
    Behaviour::Respond(json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}))
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"name": name}}, "data": {"a": "b"}})
}

async fn start(path: &str, server: &WebhookServer, more: &Value) -> TestServer {
    let plane = start_without(&[]).await;
    let created = plane.post(path, server.configuration("hook", more)).await;
    assert_eq!(warnings(&created), Vec::<String>::new(), "webhooks are called now");
    created.expect(201);
    plane
}

#[tokio::test]
async fn a_validating_webhook_sees_the_request_and_refuses_it() {
    let server = WebhookServer::start(|question| {
        let is_bad = question["request"]["object"]["data"]["a"] == "bad";
        let status = json!({"code": 409, "reason": "Odd", "message": "not so"});
        Behaviour::Respond(json!({"allowed": !is_bad, "status": status, "warnings": ["look out"]}))
    })
    .await;
    let plane = start(VALIDATING, &server, &json!({})).await;
    let made = plane.post(&format!("{CONFIG_MAPS}?fieldManager=m"), config_map("good")).await;
    assert_eq!((made.code, warnings(&made)), (201, vec!["look out".to_owned()]));
    let mut bad = config_map("bad");
    bad["data"]["a"] = "bad".into();
    let refused = plane.post(CONFIG_MAPS, bad).await;
    assert_eq!(warnings(&refused), ["look out"]);
    let refused = refused.expect(409);
    assert_eq!(refused["reason"], "Odd");
    assert_eq!(refused["message"], "admission webhook \"hook.demo.dev\" denied the request: not so");
    let (path, question) = server.questions().remove(0);
    assert_eq!(path, "/check?timeout=10s");
    let asked = &question["request"];
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!((&asked["kind"], &asked["requestKind"]), (&kind, &kind));
    assert_eq!((&asked["resource"], &asked["requestResource"]), (&resource, &resource));
    assert_eq!((&asked["name"], &asked["namespace"]), (&json!("good"), &json!("default")));
    assert_eq!((&asked["operation"], &asked["dryRun"]), (&json!("CREATE"), &json!(false)));
    assert_eq!(
        asked["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "m"})
    );
    assert_eq!(asked["userInfo"]["username"], "kubernetes-admin");
    assert!(asked["oldObject"].is_null() && !asked["object"]["metadata"]["uid"].is_null());
}

#[tokio::test]
async fn updates_and_deletions_are_asked_about_with_the_old_object() {
    let server = WebhookServer::start(|question| {
        let is_deletion = question["request"]["operation"] == "DELETE";
        Behaviour::Respond(json!({"allowed": !is_deletion}))
    })
    .await;
    let plane = start(VALIDATING, &server, &json!({})).await;
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    plane.patch(&format!("{CONFIG_MAPS}/a"), MERGE, json!({"data": {"a": "c"}})).await.expect(200);
    assert_eq!(
        message(plane.delete(&format!("{CONFIG_MAPS}/a")).await, 400),
        "admission webhook \"hook.demo.dev\" denied the request without explanation"
    );
    plane.delete(CONFIG_MAPS).await.expect(400);
    let questions = server.questions();
    let update = &questions[1].1["request"];
    assert_eq!(
        (&update["object"]["data"], &update["oldObject"]["data"]),
        (&json!({"a": "c"}), &json!({"a": "b"}))
    );
    assert_eq!(update["options"]["kind"], "UpdateOptions");
    let delete = &questions[2].1["request"];
    assert!(delete["object"].is_null() && delete["oldObject"]["data"] == json!({"a": "c"}));
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_object_and_unknown_fields_are_dropped() {
    let operations =
        json!([{"op": "add", "path": "/data/new", "value": "x"}, {"op": "add", "path": "/odd", "value": 1}]);
    let server = WebhookServer::start(move |_| patch(&operations)).await;
    let plane = start(MUTATING, &server, &json!({})).await;
    let made = plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(made["data"], json!({"a": "b", "new": "x"}));
    assert!(made.get("odd").is_none());
    plane.delete(&format!("{CONFIG_MAPS}/a")).await.expect(500);
}

/// A patch changes neither the identity of an object nor the fields that only the server sets.
#[tokio::test]
async fn a_patch_leaves_the_servers_fields_alone() {
    let operations = json!([{"op": "replace", "path": "/kind", "value": "Secret"},
        {"op": "replace", "path": "/apiVersion", "value": "x.dev/v1"},
        {"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"},
        {"op": "add", "path": "/metadata/creationTimestamp", "value": "2020-01-01T00:00:00Z"},
        {"op": "add", "path": "/data/new", "value": "x"}]);
    let on_create = operations.clone();
    let server = WebhookServer::start(move |question| match question["request"]["operation"].as_str() {
        Some("CREATE") => patch(&on_create),
        _ => patch(&json!([on_create[0], on_create[1], on_create[3]])),
    })
    .await;
    let plane = start(MUTATING, &server, &json!({})).await;
    let made = plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(
        (&made["kind"], &made["apiVersion"], &made["data"]["new"]),
        (&json!("ConfigMap"), &json!("v1"), &json!("x"))
    );
    let metadata = &made["metadata"];
    assert!(
        metadata.get("deletionTimestamp").is_none()
            && metadata["creationTimestamp"] != operations[3]["value"],
        "{metadata}"
    );
    let path = format!("{CONFIG_MAPS}/a");
    let changed = plane.patch(&path, MERGE, json!({"data": {"a": "c"}})).await.expect(200);
    assert_eq!(
        (&changed["kind"], &changed["metadata"]["creationTimestamp"]),
        (&json!("ConfigMap"), &metadata["creationTimestamp"])
    );
}

/// A response of a few bytes can take thirty times as much memory.
#[tokio::test]
async fn answers_with_very_many_parts_are_refused() {
    let many = || json!(vec![json!([]); 1_500_000]);
    let server = WebhookServer::start(move |question| match question["request"]["name"].as_str() {
        Some("answer") => Behaviour::Respond(json!({"allowed": true, "odd": many()})),
        _ => patch(&json!([{"op": "add", "path": "/odd", "value": many()}])),
    })
    .await;
    let plane = start(MUTATING, &server, &json!({"timeoutSeconds": 30})).await;
    for name in ["answer", "patch"] {
        let refused = message(plane.post(CONFIG_MAPS, config_map(name)).await, 500);
        assert!(refused.contains("it has too many parts"), "{name}: {refused}");
    }
}

#[tokio::test]
async fn selectors_conditions_and_names_decide_who_is_asked() {
    for (more, expected) in [
        (json!({"objectSelector": {"matchLabels": {"name": "a"}}}), 1),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}), 2),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}), 0),
        (json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'b'"}]}), 1),
        (json!({"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}]}), 0),
    ] {
        let server = WebhookServer::start(|_| allow()).await;
        let plane = start(VALIDATING, &server, &more).await;
        for name in ["a", "b"] {
            plane.post(CONFIG_MAPS, config_map(name)).await.expect(201);
        }
        assert_eq!(server.questions().len(), expected, "{more}");
    }
}

#[tokio::test]
async fn a_condition_that_fails_refuses_unless_failures_are_ignored() {
    let server = WebhookServer::start(|_| allow()).await;
    let broken = json!([{"name": "c", "expression": "object.data.none == 'b'"}]);
    let plane = start(VALIDATING, &server, &json!({"matchConditions": broken})).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("a")).await, 403);
    assert!(
        refused.contains("expression 'object.data.none == 'b'' resulted in error: no such key"),
        "{refused}"
    );
    let plane =
        start(VALIDATING, &server, &json!({"matchConditions": broken, "failurePolicy": "Ignore"})).await;
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(server.questions().len(), 0);
}

#[tokio::test]
async fn an_equivalent_version_is_asked_about_in_that_version() {
    let server = WebhookServer::start(|question| {
        assert_eq!(question["request"]["object"]["apiVersion"], "autoscaling/v1");
        patch(&json!([{"op": "replace", "path": "/spec/maxReplicas", "value": 7}]))
    })
    .await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"]}]);
    let plane = start(MUTATING, &server, &json!({"rules": rules})).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let scaler = json!({"metadata": {"name": "s"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = plane.post(path, scaler).await.expect(201);
    assert_eq!((&made["apiVersion"], &made["spec"]["maxReplicas"]), (&json!("autoscaling/v2"), &json!(7)));
    let asked = &server.questions()[0].1["request"];
    assert_eq!((&asked["kind"]["version"], &asked["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
}

#[tokio::test]
async fn a_webhook_is_asked_again_about_later_changes_if_it_wants() {
    let first = WebhookServer::start(|_| allow()).await;
    let second = WebhookServer::start(|question| {
        let is_there = !question["request"]["object"]["data"]["new"].is_null();
        if is_there { allow() } else { patch(&json!([{"op": "add", "path": "/data/new", "value": "x"}])) }
    })
    .await;
    let plane = start_without(&[]).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    plane.post(MUTATING, first.configuration("a", &again)).await.expect(201);
    plane.post(MUTATING, second.configuration("b", &json!({}))).await.expect(201);
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!((first.questions().len(), second.questions().len()), (2, 1));
    assert_eq!(first.questions()[1].1["request"]["object"]["data"]["new"], "x");
}

#[tokio::test]
async fn failures_are_told_or_ignored_as_the_policy_says() {
    let check = async |behave: fn() -> Behaviour, more: Value, expected: &str| {
        let server = WebhookServer::start(move |_| behave()).await;
        let mut more = more;
        let plane = start(VALIDATING, &server, &more).await;
        let refused = message(plane.post(CONFIG_MAPS, config_map("a")).await, 500);
        let intro = "Internal error occurred: failed calling webhook \"hook.demo.dev\": ";
        let told =
            refused.strip_prefix(intro).unwrap_or(&refused).replace(&server.address.to_string(), "ADDRESS");
        assert_eq!(told, expected);
        more["failurePolicy"] = "Ignore".into();
        let plane = start(VALIDATING, &server, &more).await;
        plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    };
    check(
        || Behaviour::Text(500, "broken"),
        json!({}),
        "failed to call webhook: an error on the server (\"broken\") has prevented the request from succeeding",
    )
    .await;
    check(
        || Behaviour::Text(404, "x"),
        json!({}),
        "failed to call webhook: the server could not find the requested resource",
    )
    .await;
    check(
        || Behaviour::Redirect,
        json!({}),
        "failed to call webhook: the server redirects (code 302), which is not followed",
    )
    .await;
    check(
        || Behaviour::Hang,
        json!({"timeoutSeconds": 1}),
        "failed to call webhook: Post \"https://ADDRESS/check?timeout=1s\": context deadline exceeded",
    )
    .await;
    check(|| Behaviour::Endless, json!({}), "failed to call webhook: length limit exceeded").await;
    check(
        || Behaviour::Text(200, "{}"),
        json!({}),
        "received invalid webhook response: webhook response was absent",
    )
    .await;
}

#[tokio::test]
async fn a_certificate_of_somebody_else_is_not_trusted() {
    let (server, other) = (WebhookServer::start(|_| allow()).await, WebhookServer::start(|_| allow()).await);
    let config = json!({"url": format!("https://{}/", server.address), "caBundle": other.bundle});
    let plane = start(VALIDATING, &server, &json!({"clientConfig": config})).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("a")).await, 500);
    assert!(refused.ends_with("x509: certificate signed by unknown authority"), "{refused}");
}

#[tokio::test]
async fn a_service_is_reached_through_its_endpoints() {
    let server = WebhookServer::start(|_| allow()).await;
    let service = json!({"service": {"name": "hook", "namespace": "default", "path": "/a//b/"}, "caBundle": server.bundle});
    let plane = start(VALIDATING, &server, &json!({"clientConfig": service})).await;
    let refused = message(plane.post(CONFIG_MAPS, config_map("a")).await, 500);
    assert!(
        refused
            .ends_with("Post \"https://hook.default.svc:443/a/b?timeout=10s\": service \"hook\" not found"),
        "{refused}"
    );
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    plane.post("/api/v1/namespaces/default/services", service).await.expect(201);
    let slice = json!({"metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": server.address.port()}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]});
    plane.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.expect(201);
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(server.questions()[0].0, "/a/b?timeout=10s");
}

/// Slices that belong to no Service, or to another one, cost the writes that a webhook matches nothing.
#[tokio::test]
async fn slices_of_others_do_not_slow_down_calls_of_a_service() {
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    // Each takes milliseconds to parse; together they were a large part of a second for every write.
    const LARGE_SLICES: u32 = 20;
    const WRITES: u32 = 10;
    let server = WebhookServer::start(|_| allow()).await;
    let service = json!({"service": {"name": "hook", "namespace": "default"}, "caBundle": server.bundle});
    let plane = start(VALIDATING, &server, &json!({"clientConfig": service})).await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    plane.post("/api/v1/namespaces/default/services", service).await.expect(201);
    let slice = json!({"metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": server.address.port()}],
        "endpoints": [{"addresses": ["127.0.0.1"]}]});
    plane.post(SLICES, slice).await.expect(201);
    let write = async |round: &str| {
        let started = ProcessorTime::start();
        for number in 0..WRITES {
            plane.post(CONFIG_MAPS, config_map(&format!("{round}-{number}"))).await.expect(201);
        }
        started.elapsed()
    };
    write("warm").await;
    let before = write("before").await;
    let endpoints = vec![
        json!({"addresses": ["10.0.0.1"], "hostname": "h".repeat(63),
        "nodeName": "n".repeat(63), "zone": "z".repeat(63)});
        1000
    ];
    for number in 0..LARGE_SLICES {
        let large = json!({"metadata": {"name": format!("large-{number}")}, "addressType": "IPv4",
            "endpoints": endpoints.clone()});
        plane.post(SLICES, large).await.expect(201);
    }
    let after = write("after").await;
    assert!(after < before * 4, "{WRITES} writes took {after:?} instead of {before:?}");
}

#[tokio::test]
async fn a_dry_run_is_told_and_stores_nothing() {
    let server = WebhookServer::start(|_| allow()).await;
    let plane = start(VALIDATING, &server, &json!({})).await;
    plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("a")).await.expect(201);
    let asked = &server.questions()[0].1["request"];
    assert_eq!((&asked["dryRun"], &asked["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    plane.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn connections_and_scales_are_asked_about_as_such() {
    let server = WebhookServer::start(|_| Behaviour::Respond(json!({"allowed": false}))).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["", "apps"], "apiVersions": ["*"],
        "resources": ["pods/exec", "pods/binding", "deployments/scale"]}]);
    let plane = start(VALIDATING, &server, &json!({"rules": rules})).await;
    plane.post(super::PODS, super::pod("p", &json!({}))).await.expect(201);
    plane.post(&format!("{}/p/exec?command=ls&stdout=true", super::PODS), json!({})).await.expect(400);
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    plane.post(&format!("{}/p/binding", super::PODS), binding).await.expect(400);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    plane.post(deployments, deployment).await.expect(201);
    let scale = json!({"spec": {"replicas": 5}});
    plane.patch(&format!("{deployments}/d/scale"), MERGE, scale).await.expect(400);
    let asked =
        server.questions().into_iter().map(|(_, question)| question["request"].clone()).collect::<Vec<_>>();
    let shown =
        |at: usize| json!([asked[at]["operation"], asked[at]["kind"]["kind"], asked[at]["subResource"]]);
    assert_eq!(shown(0), json!(["CONNECT", "PodExecOptions", "exec"]));
    assert_eq!(asked[0]["object"]["command"], json!(["ls"]));
    assert_eq!(shown(1), json!(["CREATE", "Binding", "binding"]));
    assert_eq!(shown(2), json!(["UPDATE", "Scale", "scale"]));
    assert_eq!(
        (&asked[2]["object"]["spec"]["replicas"], &asked[2]["oldObject"]["spec"]["replicas"]),
        (&json!(5), &json!(1))
    );
}

/// Admission configurations could not be repaired if they needed a webhook's consent.
#[tokio::test]
async fn configurations_of_admission_are_exempt() {
    let server = WebhookServer::start(|_| Behaviour::Respond(json!({"allowed": false}))).await;
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let plane = start(VALIDATING, &server, &json!({"rules": rules})).await;
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(400);
    plane.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    plane.post(CONFIG_MAPS, config_map("a")).await.expect(201);
}
