//! Tests custom kinds: they are served immediately, validated by their schema, deleted with their objects.

use std::sync::Arc;

use homeostat_apiserver::data_migrations::CONTENTS;
use homeostat_store::Disk;
use homeostat_store::disk::Config;
use serde_json::{Value, json};

use crate::test_server::{APPLY, Answer, MERGE, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAMPS: &str = "/apis/demo.dev/v1/namespaces/default/lamps";

fn definition() -> Value {
    let spec = json!({"type": "object", "required": ["watts"], "properties": {
        "watts": {"type": "integer", "minimum": 1},
        "colour": {"type": "string", "default": "white", "enum": ["white", "warm"]},
        "count": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.watts < 100 || self.colour == 'white'",
            "message": "strong lamps are white"}]});
    let schema = json!({"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "properties": {"lit": {"type": "boolean"}, "count": {"type": "integer"}}}}});
    json!({"metadata": {"name": "lamps.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "lamps", "kind": "Lamp", "shortNames": ["lp"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count",
                "statusReplicasPath": ".status.count"}},
            "additionalPrinterColumns": [{"name": "Watts", "type": "integer", "jsonPath": ".spec.watts"}]}]}})
}

#[expect(clippy::needless_pass_by_value, reason = "specs are written in place with json!")]
fn lamp(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec})
}

async fn with_lamps() -> TestServer {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, definition()).await.expect(201);
    plane
}

#[tokio::test]
async fn a_kind_is_served_the_moment_it_is_defined() {
    let plane = with_lamps().await;
    let made = plane.post(LAMPS, lamp("a", json!({"watts": 5, "unknown": 1}))).await.expect(201);
    assert_eq!(made["spec"], json!({"watts": 5, "colour": "white"}), "defaulted and pruned");
    assert_eq!(made["metadata"]["generation"], 1);
    let resources = plane.get("/apis/demo.dev/v1").await.expect(200);
    let names = resources["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["lamps", "lamps/status", "lamps/scale"]);
    let table = plane.get_as(LAMPS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 5]));
}

#[tokio::test]
async fn the_schema_judges_with_a_cause_for_each_mistake() {
    let plane = with_lamps().await;
    let check = async |spec: Value, expected: &[(&str, &str)]| {
        let refused = plane.post(LAMPS, lamp("bad", spec)).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap().iter();
        let got = causes.map(|one| (one["reason"].as_str().unwrap(), one["field"].as_str().unwrap()));
        assert_eq!(got.collect::<Vec<_>>(), expected, "{refused}");
    };
    // If the rules cannot be evaluated, another cause says so.
    let unchecked = ("FieldValueInvalid", "<nil>");
    check(json!({}), &[("FieldValueRequired", "spec.watts"), unchecked]).await;
    check(json!({"watts": 0}), &[("FieldValueInvalid", "spec.watts")]).await;
    check(json!({"watts": "5"}), &[("FieldValueTypeInvalid", "spec.watts"), unchecked]).await;
    check(json!({"watts": 5, "colour": "red"}), &[("FieldValueNotSupported", "spec.colour"), unchecked])
        .await;
    check(json!({"watts": 500, "colour": "warm"}), &[("FieldValueInvalid", "spec")]).await;
}

#[tokio::test]
async fn status_and_scale_are_separate_endpoints() {
    let plane = with_lamps().await;
    plane.post(LAMPS, lamp("a", json!({"watts": 5, "count": 1}))).await.expect(201);
    let path = format!("{LAMPS}/a");
    let both = json!({"spec": {"watts": 7}, "status": {"lit": true}});
    let main = plane.patch(&path, MERGE, both.clone()).await.expect(200);
    assert_eq!((&main["spec"]["watts"], main.get("status")), (&json!(7), None));
    let both = json!({"spec": {"watts": 9}, "status": {"lit": true, "count": 4}});
    let status = plane.patch(&format!("{path}/status"), MERGE, both).await.expect(200);
    assert_eq!((&status["spec"]["watts"], &status["status"]["lit"]), (&json!(7), &json!(true)));
    assert_eq!(status["metadata"]["generation"], 2);
    let scale =
        plane.patch(&format!("{path}/scale"), MERGE, json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    assert_eq!(scale["status"]["replicas"], 4);
    assert_eq!(plane.get(&path).await.expect(200)["spec"]["count"], 3);
    let blind = json!({"metadata": {"name": "a"}, "spec": {"replicas": 6}});
    plane.put(&format!("{path}/scale"), blind).await.expect(200);
    let late = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 7}});
    plane.put(&format!("{path}/scale"), late).await.expect(409);
    assert_eq!(plane.get(&path).await.expect(200)["spec"]["count"], 6);
}

#[tokio::test]
async fn custom_objects_are_applied_by_several() {
    let plane = with_lamps().await;
    let path = |manager: &str| format!("{LAMPS}/a?fieldManager={manager}");
    plane.patch(&path("one"), APPLY, lamp("a", json!({"watts": 5}))).await.expect(201);
    plane.patch(&path("two"), APPLY, lamp("b", json!({"count": 2}))).await.expect(400);
    let both = plane.patch(&path("two"), APPLY, lamp("a", json!({"count": 2}))).await.expect(200);
    assert_eq!(both["spec"], json!({"watts": 5, "count": 2, "colour": "white"}));
    plane.patch(&path("two"), APPLY, lamp("a", json!({"watts": 6, "count": 2}))).await.expect(409);
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_and_ends_their_watches() {
    let plane = with_lamps().await;
    let held = json!({"metadata": {"finalizers": ["demo.dev/x"]}});
    plane.post(LAMPS, lamp("a", json!({"watts": 5}))).await.expect(201);
    plane.patch(&format!("{LAMPS}/a"), MERGE, held).await.expect(200);
    let mut events = plane.watch(&format!("{LAMPS}?watch=1")).await;
    assert_eq!(events.names(1).await, ["ADDED a"]);
    let path = format!("{DEFINITIONS}/lamps.demo.dev");
    plane.delete(&path).await.expect(200);
    assert_eq!(events.names(1).await, ["MODIFIED a"], "marked, and held by its finalizer");
    plane.post(LAMPS, lamp("late", json!({"watts": 5}))).await.expect(403);
    plane.patch(&format!("{LAMPS}/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.until_gone(&path).await;
    assert_eq!(events.names(1).await, ["DELETED a"]);
    plane.get(LAMPS).await.expect(404);
    assert_eq!(events.next().await, None, "nothing can come any more");
}

#[tokio::test]
async fn every_served_version_has_an_api_service() {
    let plane = TestServer::start().await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let apps = plane.get(&format!("{services}/v1.apps")).await.expect(200);
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");
    plane.post(DEFINITIONS, definition()).await.expect(201);
    plane.until(&format!("{services}/v1.demo.dev"), |answer| answer.code == 200).await;
    for (name, uid) in [("v1.apps", &apps["metadata"]["uid"]), ("v1.demo.dev", &json!(""))] {
        plane.delete(&format!("{services}/{name}")).await.expect(200);
        let is_new = |answer: &Answer| answer.code == 200 && answer.body["metadata"]["uid"] != *uid;
        plane.until(&format!("{services}/{name}"), is_new).await;
    }
    plane.delete(&format!("{DEFINITIONS}/lamps.demo.dev")).await.expect(200);
    plane.until_gone(&format!("{services}/v1.demo.dev")).await;
}

/// Returns a definition for objects of any shape.
fn loose(plural: &str) -> Value {
    let mut definition = definition();
    definition["metadata"]["name"] = format!("{plural}.demo.dev").into();
    definition["spec"]["names"] = json!({"plural": plural, "kind": format!("Kind{plural}")});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    definition["spec"]["versions"] =
        json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    definition
}

fn durable() -> (tempfile::TempDir, Arc<Disk>) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { contents: CONTENTS, ..Config::default() };
    let store = Disk::open(folder.path(), &config).unwrap();
    (folder, Arc::new(store))
}

/// A definition whose client disconnected while it was marked once stayed forever: nothing notified the background
/// tasks.
#[tokio::test]
async fn a_write_completes_after_its_client_disconnected() {
    let (_folder, store) = durable();
    let plane = TestServer::start_on(store).await;
    let (path, objects) =
        (format!("{DEFINITIONS}/things.demo.dev"), "/apis/demo.dev/v1/namespaces/default/things");
    for _ in 0..10 {
        plane.ask_and_leave("POST", DEFINITIONS, &loose("things"));
        plane.until(objects, |answer| answer.code == 200).await;
        plane.post(objects, thing("things", "one")).await.expect(201);
        plane.ask_and_leave("DELETE", &path, &Value::Null);
        plane.until_gone(&path).await;
    }
}

fn thing(plural: &str, name: &str) -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": format!("Kind{plural}"), "metadata": {"name": name}})
}

/// An object that cannot be marked for deletion keeps its definition, and nothing else.
#[tokio::test]
async fn a_definition_that_cannot_be_deleted_delays_no_other() {
    const OBJECT_BYTES_MAX: usize = 1536 * 1024;
    let plane = TestServer::start().await;
    for plural in ["aaa", "zzz"] {
        plane.post(DEFINITIONS, loose(plural)).await.expect(201);
    }
    let objects = "/apis/demo.dev/v1/namespaces/default/aaa";
    let mut huge = thing("aaa", "huge");
    huge["metadata"]["finalizers"] = json!(["demo.dev/x"]);
    huge["text"] = "".into();
    let empty = plane.post(objects, huge.clone()).await.expect(201);
    plane
        .patch(&format!("{objects}/huge"), MERGE, json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    plane.delete(&format!("{objects}/huge")).await.expect(200);
    huge["text"] = "x".repeat(OBJECT_BYTES_MAX - empty.to_string().len() - 40).into();
    plane.post(objects, huge).await.expect(201);
    plane.delete(&format!("{objects}/huge")).await.expect(500);
    for plural in ["aaa", "zzz"] {
        plane.delete(&format!("{DEFINITIONS}/{plural}.demo.dev")).await.expect(200);
    }
    plane.until_gone(&format!("{DEFINITIONS}/zzz.demo.dev")).await;
    plane.get(&format!("{DEFINITIONS}/aaa.demo.dev")).await.expect(200);
}

#[tokio::test]
async fn a_definition_with_many_objects_is_deleted_under_watches_and_writes() {
    let (_folder, store) = durable();
    let plane = Arc::new(TestServer::start_on(store).await);
    let path = format!("{DEFINITIONS}/things.demo.dev");
    let objects = "/apis/demo.dev/v1/namespaces/default/things";
    for round in 0..3 {
        plane.post(DEFINITIONS, loose("things")).await.expect(201);
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(plane.watch(&format!("{objects}?watch=1")).await);
        }
        let names = (0..200).map(|at| format!("t{at}")).collect::<Vec<_>>();
        for name in &names {
            let mut object = thing("things", name);
            if name.ends_with('7') {
                object["metadata"]["finalizers"] = json!(["demo.dev/x"]);
            }
            plane.post(objects, object).await.expect(201);
        }
        let writer = tokio::spawn({
            let plane = Arc::clone(&plane);
            // Until creation is refused: a definition that is being deleted accepts no more objects.
            async move {
                let mut at = 0;
                while plane.post(objects, thing("things", &format!("late{round}-{at}"))).await.code == 201 {
                    at += 1;
                }
            }
        });
        plane.delete(&path).await.expect(200);
        plane.delete(&path).await;
        writer.await.unwrap();
        for name in names.iter().filter(|name| name.ends_with('7')) {
            let free = json!({"metadata": {"finalizers": null}});
            plane.patch(&format!("{objects}/{name}"), MERGE, free).await;
        }
        plane.until_gone(&path).await;
        for mut watch in watches {
            while watch.next().await.is_some() {}
        }
    }
}

#[tokio::test]
async fn an_invalid_definition_is_refused() {
    let plane = TestServer::start().await;
    let mut misnamed = definition();
    misnamed["metadata"]["name"] = json!("lamp.demo.dev");
    plane.post(DEFINITIONS, misnamed).await.expect(422);
    let mut untyped = definition();
    untyped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["watts"] =
        json!({"minimum": 1});
    let refused = plane.post(DEFINITIONS, untyped).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("must not be empty for specified object fields"));
    let mut broken = definition();
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({"type": "string", "default": "x", "x-kubernetes-validations": [{"rule": "self != 'x'"}]});
    let refused = plane.post(DEFINITIONS, broken).await.expect(422);
    let cause = json!({"reason": "FieldValueInvalid", "message": "Invalid value: \"x\": failed rule: self != 'x'",
        "field": "spec.validation.openAPIV3Schema.properties[spec].properties[colour].default"});
    assert_eq!(refused["details"]["causes"], json!([cause]));
}

#[tokio::test]
async fn objects_are_read_by_the_current_schema() {
    let plane = with_lamps().await;
    plane.post(LAMPS, lamp("a", json!({"watts": 5, "count": 1}))).await.expect(201);
    let mut definition = definition();
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["volts"] = json!({"type": "integer", "default": 230});
    spec["properties"].as_object_mut().unwrap().remove("count");
    let path = format!("{DEFINITIONS}/lamps.demo.dev");
    let stored = plane.get(&path).await.expect(200);
    definition["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    plane.put(&path, definition).await.expect(200);
    let today = json!({"watts": 5, "colour": "white", "volts": 230});
    let read = plane.get(&format!("{LAMPS}/a")).await.expect(200);
    assert_eq!(read["spec"], today);
    assert_eq!(plane.get(LAMPS).await.expect(200)["items"][0], read);
    let mut events = plane.watch(&format!("{LAMPS}?watch=1")).await;
    assert_eq!(events.next().await.unwrap()["object"], read);
    let same = plane.put(&format!("{LAMPS}/a"), read.clone()).await.expect(200);
    assert_eq!(same["spec"], today);
}

const TWO_FACED: [&str; 2] =
    ["/apis/demo.dev/v1/namespaces/default/coins", "/apis/demo.dev/v2/namespaces/default/coins"];

/// Returns a kind with two versions that share `spec.a`; each has a field with a default that the other lacks.
fn coins() -> Value {
    let version = |name: &str, own: &str, default: &str| {
        let properties = json!({"a": {"type": "string"}, own: {"type": "string", "default": default}});
        let spec = json!({"type": "object", "properties": properties});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({"metadata": {"name": "coins.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "coins", "kind": "Coin"},
        "versions": [version("v1", "b", "b1"), version("v2", "c", "c2")]}})
}

#[expect(clippy::needless_pass_by_value, reason = "specs are written in place with json!")]
fn coin(version: &str, name: &str, spec: Value) -> Value {
    let api_version = format!("demo.dev/{version}");
    json!({"apiVersion": api_version, "kind": "Coin", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn stored_objects_have_only_fields_of_the_storage_version() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, coins()).await.expect(201);
    let [v1, v2] = TWO_FACED;
    let shown = async |name: &str, in_v1: Value, in_v2: Value| {
        for (list, expected) in [(v1, in_v1), (v2, in_v2)] {
            let read = plane.get(&format!("{list}/{name}")).await.expect(200);
            assert_eq!(read["spec"], expected, "{list}");
            let items = plane.get(list).await.expect(200)["items"].take();
            let item = items.as_array().unwrap().iter().find(|one| one["metadata"]["name"] == name).cloned();
            assert_eq!(item, Some(read), "listed as it is read");
        }
    };
    let made = plane.post(v1, coin("v1", "x", json!({"a": "1"}))).await.expect(201);
    assert_eq!(made["spec"], json!({"a": "1", "b": "b1"}));
    shown("x", json!({"a": "1", "b": "b1"}), json!({"a": "1"})).await;
    let patched = plane.patch(&format!("{v2}/x"), MERGE, json!({"spec": {"c": "new"}})).await.expect(200);
    assert_eq!(patched["spec"], json!({"a": "1"}), "the answer is what was stored");
    shown("x", json!({"a": "1", "b": "b1"}), json!({"a": "1"})).await;
    plane.patch(&format!("{v1}/x"), MERGE, json!({"spec": {"b": "own"}})).await.expect(200);
    shown("x", json!({"a": "1", "b": "own"}), json!({"a": "1"})).await;
    plane.post(v2, coin("v2", "y", json!({"a": "2"}))).await.expect(201);
    shown("y", json!({"a": "2", "b": "b1"}), json!({"a": "2"})).await;
    let mut events = plane.watch(&format!("{v1}?watch=1")).await;
    let named = [events.next().await.unwrap(), events.next().await.unwrap()];
    let specs = named.map(|mut event| event["object"]["spec"].take());
    assert_eq!(specs, [json!({"a": "1", "b": "own"}), json!({"a": "2", "b": "b1"})]);
}

#[tokio::test]
async fn objects_written_in_another_version_get_the_defaults_of_the_storage_version() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, coins()).await.expect(201);
    let [v1, v2] = TWO_FACED;
    plane.post(v1, coin("v1", "own", json!({"a": "1"}))).await.expect(201);
    plane.post(v2, coin("v2", "other", json!({"a": "1"}))).await.expect(201);
    let held = json!({"metadata": {"finalizers": ["demo.dev/x"]}});
    plane.patch(&format!("{v2}/other"), MERGE, held).await.expect(200);
    let path = format!("{DEFINITIONS}/coins.demo.dev");
    let mut definition = plane.get(&path).await.expect(200);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["b"]
        ["default"] = json!("b2");
    plane.put(&path, definition).await.expect(200);
    let spec = async |name: &str| plane.get(&format!("{v1}/{name}")).await.expect(200)["spec"].take();
    assert_eq!(spec("own").await, json!({"a": "1", "b": "b1"}), "was stored with its default");
    assert_eq!(spec("other").await, json!({"a": "1", "b": "b2"}), "gets it when read");
    plane.delete(&format!("{v1}/other")).await.expect(200);
    assert_eq!(spec("other").await, json!({"a": "1", "b": "b2"}), "marked, and still complete");
}

#[tokio::test]
async fn objects_of_a_version_no_longer_served_are_read_by_its_schema() {
    let plane = TestServer::start().await;
    plane.post(DEFINITIONS, coins()).await.expect(201);
    let [v1, v2] = TWO_FACED;
    plane.post(v1, coin("v1", "x", json!({"a": "1"}))).await.expect(201);
    let path = format!("{DEFINITIONS}/coins.demo.dev");
    let mut definition = plane.get(&path).await.expect(200);
    let versions = &mut definition["spec"]["versions"];
    (versions[0]["served"], versions[0]["storage"], versions[1]["storage"]) =
        (json!(false), json!(false), json!(true));
    plane.put(&path, definition).await.expect(200);
    plane.get(v1).await.expect(404);
    let spec = async || plane.get(&format!("{v2}/x")).await.expect(200)["spec"].take();
    assert_eq!(
        spec().await,
        json!({"a": "1"}),
        "without the field of the old version or the default of the new"
    );
    let patched = plane.patch(&format!("{v2}/x"), MERGE, json!({"spec": {"a": "2"}})).await.expect(200);
    assert_eq!(patched["spec"], json!({"a": "2", "c": "c2"}), "written anew, with the default");
    assert_eq!(spec().await, json!({"a": "2", "c": "c2"}));
}

#[tokio::test]
async fn embedded_resources_are_validated_as_resources() {
    let plane = TestServer::start().await;
    let whole = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let mut definition = definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "properties": {"in": whole}});
    plane.post(DEFINITIONS, definition).await.expect(201);
    let put = async |resource: Value| plane.post(LAMPS, lamp("a", json!({ "in": resource }))).await;
    let refused =
        put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"x": 1}}})).await.expect(400);
    assert_eq!(
        refused["message"],
        "Lamp in version \"v1\" cannot be handled as a Lamp: spec.in.metadata: Invalid value: \
         {\"labels\":{\"x\":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    );
    let refused =
        put(json!({"apiVersion": "a/b/c", "kind": "a b", "metadata": {"ownerReferences": [{}]}})).await;
    let refused = refused.expect(422);
    let causes = refused["details"]["causes"].as_array().unwrap().iter();
    let fields: Vec<_> =
        causes.map(|one| one["field"].as_str().unwrap().trim_start_matches("spec.in.")).collect();
    let owner = ["apiVersion", "kind", "name", "uid"].map(|name| format!("metadata.ownerReferences.{name}"));
    assert_eq!(fields, [&["apiVersion".to_owned(), "kind".to_owned()], &owner[..]].concat());
    let metadata = json!({"creationTimestamp": "2020-01-01T02:00:00.5+02:00", "labels": {"a": "b"}});
    let made = put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).await.expect(201);
    assert_eq!(made["spec"]["in"]["metadata"]["creationTimestamp"], "2020-01-01T00:00:00Z");
    let wrong = json!({"spec": {"in": {"metadata": {"name": "x/y"}}}});
    plane.patch(&format!("{LAMPS}/a"), MERGE, wrong).await.expect(422);
}

/// Returns a kind whose only field is a list of strings with one rule.
fn knots(bounds: &Value, rule: &str) -> Value {
    let mut list = json!({"type": "array", "items": {"type": "string", "maxLength": 20},
        "x-kubernetes-validations": [{"rule": rule, "message": "the rule does not hold"}]});
    list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    json!({"metadata": {"name": "knots.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
        "names": {"plural": "knots", "kind": "Knot"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

const KNOT_RULE: &str = "self.all(x, self.all(y, self.all(z, x + y + z != '')))";

#[tokio::test]
async fn a_definition_with_an_unbounded_rule_is_refused() {
    let plane = TestServer::start().await;
    let refused = plane.post(DEFINITIONS, knots(&json!({}), KNOT_RULE)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    let expected = "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or \
                    adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    assert!(message.contains(expected), "{message}");
    let refused =
        plane.post(DEFINITIONS, knots(&json!({"maxItems": 5}), "self.foo() == 1")).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("undeclared reference to 'foo'"), "{refused}");
}

#[tokio::test]
async fn the_most_expensive_accepted_rule_is_fast() {
    let plane = TestServer::start().await;
    // 60 * 60 * 60 rounds are just below the limit of the estimate.
    plane.post(DEFINITIONS, knots(&json!({"maxItems": 60}), KNOT_RULE)).await.expect(201);
    let knot = |name: &str, count: usize| {
        json!({"apiVersion": "demo.dev/v1", "kind": "Knot", "metadata": {"name": name},
            "spec": {"l": vec!["x".repeat(20); count]}})
    };
    let path = "/apis/demo.dev/v1/namespaces/default/knots";
    plane.post(path, knot("small", 20)).await.expect(201);
    let refused = plane.post(path, knot("large", 60)).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("actual cost limit exceeded"), "{message}");
    // Objects that the schema refuses are not evaluated at all.
    let refused = plane.post(path, knot("beyond", 3000)).await.expect(422);
    assert!(!refused["message"].as_str().unwrap().contains("cost limit"), "{refused}");
}

/// Long chains once overflowed the stack of the parser or the evaluator.
#[tokio::test]
async fn rules_nested_without_end_are_refused() {
    let plane = TestServer::start().await;
    let chains = [
        format!("{} > 0", vec!["1"; 5000].join("+")),
        format!("self{} == 1", ".a".repeat(20_000)),
        format!("self{} == 1", "[0]".repeat(20_000)),
        format!("{}true{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}true", "!".repeat(20_000)),
        format!("self.watts{} == 1", ".max()".repeat(20_000)),
        vec!["true"; 20_000].join(" && "),
        format!("{}1", "true ? 1 : ".repeat(5000)),
    ];
    for rule in chains {
        let mut definition = definition();
        let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["x-kubernetes-validations"][0]["rule"] = rule.clone().into();
        let answer = plane.post(DEFINITIONS, definition).await;
        if answer.code == 201 {
            plane.post(LAMPS, lamp("a", json!({"watts": 5}))).await;
            plane.delete(&format!("{DEFINITIONS}/lamps.demo.dev")).await.expect(200);
            plane.until_gone(&format!("{DEFINITIONS}/lamps.demo.dev")).await;
        } else {
            assert_eq!(answer.code, 422, "{} …: {}", &rule[..20], answer.body);
        }
    }
}
