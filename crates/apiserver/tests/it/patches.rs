//! Tests the four kinds of patch, and field ownership.

use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{APPLY, JSON_PATCH, MERGE, STRATEGIC, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(containers: &[&str]) -> Value {
    let containers = containers.iter().map(|name| json!({"name": name, "image": format!("{name}:1")}));
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": containers.collect::<Vec<_>>()}}}})
}

fn container_names(deployment: &Value) -> Vec<&str> {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap().iter();
    containers.map(|container| container["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_json_patch_is_all_or_nothing() {
    let plane = TestServer::start().await;
    let path = format!("{MAPS}/a");
    plane.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.expect(201);
    let good = json!([{"op": "test", "path": "/data/x", "value": "1"},
        {"op": "add", "path": "/data/y", "value": "2"}, {"op": "move", "from": "/data/x", "path": "/data/z"}]);
    let patched = plane.patch(&path, JSON_PATCH, good).await.expect(200);
    assert_eq!(patched["data"], json!({"y": "2", "z": "1"}));
    let bad = json!([{"op": "remove", "path": "/data/y"}, {"op": "test", "path": "/data/z", "value": "9"}]);
    plane.patch(&path, JSON_PATCH, bad).await.expect(422);
    assert_eq!(plane.get(&path).await.expect(200)["data"], json!({"y": "2", "z": "1"}));
    plane.raw("PATCH", &path, JSON_PATCH, "[{]").await.expect(400);
    plane.raw("PATCH", &path, "text/plain", "x").await.expect(415);
}

#[tokio::test]
async fn a_merge_patch_replaces_lists_and_a_strategic_one_merges_them_by_key() {
    let plane = TestServer::start().await;
    plane.post(DEPLOYMENTS, deployment(&["one", "two"])).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let add = |name: &str| {
        let container = json!({"name": name, "image": "new"});
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let merged = plane.patch(&path, STRATEGIC, add("three")).await.expect(200);
    assert_eq!(container_names(&merged), ["three", "one", "two"]);
    let removal = json!({"name": "two", "$patch": "delete"});
    let removal = json!({"spec": {"template": {"spec": {"containers": [removal]}}}});
    let removed = plane.patch(&path, STRATEGIC, removal).await.expect(200);
    assert_eq!(container_names(&removed), ["three", "one"]);
    let replaced = plane.patch(&path, MERGE, add("only")).await.expect(200);
    assert_eq!(container_names(&replaced), ["only"]);
}

#[tokio::test]
async fn field_managers_own_what_they_applied() {
    let plane = TestServer::start().await;
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    let body = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    plane.patch(&path("one"), APPLY, body(json!({"x": "1", "y": "1"}))).await.expect(201);
    plane.patch(&path("two"), APPLY, body(json!({"z": "2"}))).await.expect(200);
    let conflict = plane.patch(&path("two"), APPLY, body(json!({"x": "2", "z": "2"}))).await.expect(409);
    let cause = &conflict["details"]["causes"][0];
    assert_eq!((&cause["reason"], &cause["field"]), (&json!("FieldManagerConflict"), &json!(".data.x")));
    let forced = format!("{}&force=true", path("two"));
    plane.patch(&forced, APPLY, body(json!({"x": "2", "z": "2"}))).await.expect(200);
    // Fields that the first manager no longer applies are removed; those that it lost stay with the other.
    let left = plane.patch(&path("one"), APPLY, body(json!({}))).await.expect(200);
    assert_eq!(left["data"], json!({"x": "2", "z": "2"}));
    let same = plane.patch(&path("one"), APPLY, body(json!({}))).await.expect(200);
    assert_eq!(same["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    let nameless = plane.patch(&format!("{MAPS}/a"), APPLY, body(json!({}))).await.expect(422);
    assert_eq!(nameless["details"]["causes"][0]["field"], "fieldManager");
}

#[tokio::test]
async fn applied_lists_merge_by_their_keys() {
    let plane = TestServer::start().await;
    let path = |manager: &str| format!("{DEPLOYMENTS}/d?fieldManager={manager}&force=true");
    plane.patch(&path("one"), APPLY, deployment(&["one"])).await.expect(201);
    let both = plane.patch(&path("two"), APPLY, deployment(&["two"])).await.expect(200);
    assert_eq!(container_names(&both), ["one", "two"]);
    let mut gone = deployment(&["one"]);
    gone["spec"]["replicas"] = json!(2);
    let scaled = plane.patch(&path("two"), APPLY, gone).await.expect(200);
    assert_eq!(container_names(&scaled), ["one"]);
}

#[tokio::test]
async fn a_scale_is_applied_like_anything_else() {
    let plane = TestServer::start().await;
    plane.patch(&format!("{DEPLOYMENTS}/d?fieldManager=one"), APPLY, deployment(&["one"])).await.expect(201);
    let path = |manager: &str| format!("{DEPLOYMENTS}/d/scale?fieldManager={manager}");
    let scale = |replicas: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
            "spec": {"replicas": replicas}})
    };
    let scaled = plane.patch(&path("scaler"), APPLY, scale(4)).await.expect(200);
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    let object = plane.get(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    assert_eq!(object["spec"]["replicas"], 4);
    assert_eq!(container_names(&object), ["one"]);
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = managers.iter().find(|one| one["manager"] == "scaler").unwrap();
    assert_eq!((&entry["subresource"], &entry["operation"]), (&json!("scale"), &json!("Apply")));
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let refused = plane.patch(&path("other"), APPLY, scale(5)).await.expect(409);
    assert_eq!(refused["details"]["causes"][0]["field"], ".spec.replicas");
    plane.patch(&format!("{}&force=true", path("other")), APPLY, scale(5)).await.expect(200);
    plane.patch(&path("other"), APPLY, scale(-1)).await.expect(422);
    plane.patch(&path("other"), APPLY, deployment(&["one"])).await.expect(400);
}

/// A quadratic step here once blocked the server for a minute.
#[tokio::test]
async fn many_conflicts_take_time_in_proportion() {
    const KEYS: usize = 10_000;
    let plane = TestServer::start().await;
    let body = |value: &str| {
        let data = (0..KEYS).map(|at| (format!("key-{at}"), json!(value))).collect::<serde_json::Map<_, _>>();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
    };
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    let start = ProcessorTime::start();
    plane.patch(&path("one"), APPLY, body("1")).await.expect(201);
    let once = start.elapsed();
    let refused = plane.patch(&path("two"), APPLY, body("2")).await.expect(409);
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(&format!("Apply failed with {KEYS} conflicts: ")), "{message:.100}");
    assert!(
        (100..KEYS).contains(&refused["details"]["causes"].as_array().unwrap().len()),
        "not all are listed"
    );
    plane.patch(&format!("{}&force=true", path("two")), APPLY, body("2")).await.expect(200);
    let all = start.elapsed();
    assert!(all < once * 40, "the first apply took {once:?}, three {all:?}");
}

/// Doubling copies once produced objects that could not be read again, or overflowed the stack.
#[tokio::test]
async fn no_patch_nests_an_object_too_deep() {
    let plane = TestServer::start().await;
    let revision = "/apis/apps/v1/namespaces/default/controllerrevisions/a";
    let body = json!({"metadata": {"name": "a"}, "revision": 1, "data": {"x": {}}});
    plane.post(revision.strip_suffix("/a").unwrap(), body.clone()).await.expect(201);
    let doubling = |times: usize| {
        let mut target = "/data/x".to_owned();
        let mut operations = Vec::new();
        for _ in 0..times {
            operations.push(json!({"op": "copy", "from": "/data/x", "path": format!("{target}/x")}));
            let depth = target.matches('x').count();
            target = format!("/data{}", "/x".repeat(depth * 2));
        }
        Value::Array(operations)
    };
    let refused_for_depth = |refused: Value| {
        // Data is immutable, too, but that is validated only if there is an object to validate.
        assert!(!refused["message"].as_str().unwrap().contains("field is immutable"), "{refused}");
    };
    for times in [7, 14] {
        refused_for_depth(plane.patch(revision, JSON_PATCH, doubling(times)).await.expect(422));
    }
    let adding =
        (0..300).map(|at| json!({"op": "add", "path": format!("/data{}", "/x".repeat(at + 1)), "value": {}}));
    refused_for_depth(plane.patch(revision, JSON_PATCH, adding.collect()).await.expect(422));
    let mut deep = json!(1);
    for _ in 0..124 {
        deep = json!({ "x": deep });
    }
    let mut other = body;
    other["metadata"]["name"] = json!("b");
    other["data"] = deep;
    plane.post(revision.strip_suffix("/a").unwrap(), other).await.expect(400);
    plane.get(revision).await.expect(200);
    plane.delete(revision).await.expect(200);
}

#[tokio::test]
async fn a_strategic_patch_of_a_wrong_type_is_shown_as_it_was_sent() {
    let plane = TestServer::start().await;
    plane.post("/apis/apps/v1/namespaces/default/deployments", deployment(&["a"])).await.expect(201);
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    for (patch, expected) in [
        (
            json!({"metadata": {"labels": "x"}}),
            r#""map[metadata:map[labels:x]]": cannot restore map from string"#,
        ),
        (json!({"spec": {"replicas": "3"}}), r#""map[spec:map[replicas:3]]": unrecognized type: int32"#),
    ] {
        let refused = plane.patch(path, STRATEGIC, patch).await.expect(422);
        assert_eq!(refused["message"], format!(" \"\" is invalid: patch: Invalid value: {expected}"));
    }
}

#[tokio::test]
async fn a_refused_patch_shows_its_result() {
    let plane = TestServer::start().await;
    plane
        .post(MAPS, json!({"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "1"}}))
        .await
        .expect(201);
    let path = format!("{MAPS}/m?fieldValidation=Strict");
    let refused = plane.patch(&path, MERGE, json!({"dataa": {"k": "2"}})).await.expect(422);
    let said = refused["message"].as_str().unwrap();
    let start = r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1\"},\"dataa\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"namespace\":\"default\",\"uid\":"#;
    assert!(said.starts_with(start), "{said}");
    assert!(said.ends_with(r#": strict decoding error: unknown field "dataa""#), "{said}");
}
