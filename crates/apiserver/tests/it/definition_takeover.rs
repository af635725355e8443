//! Tests that a definition never takes over a built-in resource: neither by its names, nor by its objects, nor by its
//! deletion.
//!
//! Mallory may write definitions and has all permissions in one namespace. She never gets more.

use std::sync::Arc;

use homeostat_store::{Memory, Store as _};
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const RBAC: &str = "rbac.authorization.k8s.io";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const EVERYBODY: &[&str] = &["system:authenticated"];

/// Returns a definition of `plural` in `group`, approved by its author.
fn definition(group: &str, plural: &str, kind: &str, scope: &str, version: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, mine"}},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}})
}

/// Returns `type status reason` of each condition.
fn conditions(definition: &Value) -> Vec<String> {
    let all = definition["status"]["conditions"].as_array().unwrap().iter();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    all.map(|one| format!("{} {} {}", text(one, "type"), text(one, "status"), text(one, "reason"))).collect()
}

/// Gives a user these rules in the whole cluster, or in one namespace.
async fn allow(plane: &TestServer, user: &str, namespace: &str, rules: Value) {
    let (role, binding, kind) = match namespace {
        "" => ("clusterroles".to_owned(), "clusterrolebindings".to_owned(), "ClusterRole"),
        name => (format!("namespaces/{name}/roles"), format!("namespaces/{name}/rolebindings"), "Role"),
    };
    let name = format!("of-{user}");
    let body = json!({"metadata": {"name": name}, "rules": rules});
    plane.post(&format!("/apis/{RBAC}/v1/{role}"), body).await.expect(201);
    let body = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]});
    plane.post(&format!("/apis/{RBAC}/v1/{binding}"), body).await.expect(201);
}

/// Starts a server, and returns it and Mallory's client.
async fn with_mallory() -> (TestServer, TestServer) {
    let plane = TestServer::start().await;
    plane.post("/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await.expect(201);
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    allow(&plane, "mallory", "team", everything).await;
    let define = json!([{"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    allow(&plane, "mallory", "", define).await;
    let mallory = plane.acting_as("mallory", EVERYBODY);
    (plane, mallory)
}

/// Returns an object that would make Mallory an administrator if it counted as a ClusterRoleBinding.
fn grant(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "mallory"}]})
}

async fn names(plane: &TestServer, path: &str) -> Vec<String> {
    let list = plane.get(path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_definition_does_not_take_over_a_built_in_resource() {
    let (plane, mallory) = with_mallory().await;
    let before = names(&plane, BINDINGS).await;
    let evil = definition(RBAC, "clusterrolebindings", "Evil", "Namespaced", "v9");
    mallory.post(DEFINITIONS, evil).await.expect(201);
    let path = format!("{DEFINITIONS}/clusterrolebindings.{RBAC}");
    let stored = plane.get(&path).await.expect(200);
    assert_eq!(conditions(&stored), ["NamesAccepted False PluralConflict", "Established False NotAccepted"]);
    assert_eq!(stored["status"]["acceptedNames"]["plural"], "", "{stored}");

    let evils = format!("/apis/{RBAC}/v9/namespaces/team/clusterrolebindings");
    mallory.post(&evils, grant(&format!("{RBAC}/v9"), "Evil")).await.expect(404);
    mallory.get("/api/v1/secrets").await.expect(403);
    assert_eq!(names(&plane, BINDINGS).await, before);

    mallory.delete(&path).await.expect(200);
    plane.until_gone(&path).await;
    assert_eq!(names(&plane, BINDINGS).await, before, "the end of a definition ends nothing built in");
}

#[tokio::test]
async fn a_definition_in_a_built_in_version_does_not_replace_the_kind() {
    let (plane, mallory) = with_mallory().await;
    let evil = definition(RBAC, "clusterrolebindings", "Evil", "Cluster", "v1");
    mallory.post(DEFINITIONS, evil).await.expect(201);
    let list = plane.get(BINDINGS).await.expect(200);
    assert_eq!(list["kind"], "ClusterRoleBindingList");
    mallory.post(BINDINGS, grant(&format!("{RBAC}/v1"), "Evil")).await.expect(403);
    let resources = plane.get(&format!("/apis/{RBAC}/v1")).await.expect(200);
    let rows = resources["resources"].as_array().unwrap().iter();
    let kinds = rows.filter(|row| row["name"] == "clusterrolebindings").map(|row| row["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["ClusterRoleBinding"]);

    // A separate resource in a built-in group: as in Kubernetes, the group belongs to the built-in kinds.
    for version in ["v1", "v9"] {
        let name = format!("evils{version}");
        mallory.post(DEFINITIONS, definition(RBAC, &name, &name, "Cluster", version)).await.expect(201);
        plane.get(&format!("/apis/{RBAC}/{version}/{name}")).await.expect(404);
        let stored = plane.get(&format!("{DEFINITIONS}/{name}.{RBAC}")).await.expect(200);
        assert_eq!(conditions(&stored), ["NamesAccepted True NoConflicts", "Established False BuiltInGroup"]);
    }
    let group = plane.get(&format!("/apis/{RBAC}")).await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 1, "{group}");
    plane.get(BINDINGS).await.expect(200);
}

#[tokio::test]
async fn names_of_built_in_kinds_are_taken_in_their_group() {
    let (plane, mallory) = with_mallory().await;
    let check = async |names: Value, expected: &str| {
        let mut one = definition("storage.k8s.io", "things", "Thing", "Cluster", "v9");
        for (field, value) in names.as_object().unwrap() {
            one["spec"]["names"][field] = value.clone();
        }
        mallory.post(DEFINITIONS, one).await.expect(201);
        let path = format!("{DEFINITIONS}/things.storage.k8s.io");
        let stored = plane.get(&path).await.expect(200);
        assert_eq!(conditions(&stored)[0], expected, "{names}");
        plane.get("/apis/storage.k8s.io/v9/things").await.expect(404);
        mallory.delete(&path).await.expect(200);
        plane.until_gone(&path).await;
    };
    check(json!({"kind": "StorageClass", "listKind": "ThingList"}), "NamesAccepted False KindConflict").await;
    check(json!({"listKind": "StorageClassList"}), "NamesAccepted False ListKindConflict").await;
    check(json!({"singular": "storageclass"}), "NamesAccepted False SingularConflict").await;
    check(json!({"shortNames": ["th", "sc"]}), "NamesAccepted False ShortNamesConflict").await;
    check(json!({}), "NamesAccepted True NoConflicts").await;
}

#[tokio::test]
async fn a_forged_status_serves_nothing() {
    let (_plane, mallory) = with_mallory().await;
    let evil = definition(RBAC, "clusterrolebindings", "Evil", "Namespaced", "v9");
    mallory.post(DEFINITIONS, evil).await.expect(201);
    mallory.post(DEFINITIONS, definition("demo.dev", "lamps", "Lamp", "Namespaced", "v1")).await.expect(201);
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Mine", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = [condition("NamesAccepted"), condition("Established")];
    for (name, plural) in [("clusterrolebindings", "clusterrolebindings"), ("lamps", "clusterrolebindings")] {
        let group = if name == "lamps" { "demo.dev" } else { RBAC };
        let status = json!({"status": {"conditions": conditions,
            "acceptedNames": {"plural": plural, "kind": "Evil", "listKind": "EvilList"}}});
        mallory.patch(&format!("{DEFINITIONS}/{name}.{group}/status"), MERGE, status).await.expect(200);
        let evils = format!("/apis/{group}/v9/namespaces/team/clusterrolebindings");
        mallory.post(&evils, grant(&format!("{group}/v9"), "Evil")).await.expect(404);
        mallory.get("/api/v1/secrets").await.expect(403);
    }
}

#[tokio::test]
async fn a_custom_kind_is_not_treated_as_the_built_in_kind_of_its_name() {
    let (plane, mallory) = with_mallory().await;
    let kinds = [("bindings", "Binding"), ("pods", "Pod"), ("roles", "Role"), ("namespaces", "Namespace")];
    for (plural, kind) in kinds {
        mallory.post(DEFINITIONS, definition("demo.dev", plural, kind, "Namespaced", "v1")).await.expect(201);
        let body = json!({"apiVersion": "demo.dev/v1", "kind": kind, "metadata": {"name": "one"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], "x": 1});
        let path = format!("/apis/demo.dev/v1/namespaces/team/{plural}");
        let made = mallory.post(&path, body).await.expect(201);
        assert_eq!((&made["kind"], &made["x"]), (&json!(kind), &json!(1)));
        assert_eq!(mallory.get(&format!("{path}/one")).await.expect(200)["x"], 1);
    }
    mallory.get("/api/v1/secrets").await.expect(403);
    // Deleting a namespace deletes all of them, and the definitions stay.
    plane.delete("/api/v1/namespaces/team").await.expect(200);
    plane.until_gone("/api/v1/namespaces/team").await;
    for (plural, _) in kinds {
        assert!(names(&plane, &format!("/apis/demo.dev/v1/{plural}")).await.is_empty(), "{plural}");
    }
}

#[tokio::test]
async fn custom_objects_have_keys_no_built_in_object_can_have() {
    let store = Arc::new(Memory::new());
    let plane = TestServer::start_on(store.clone()).await;
    plane.post(DEFINITIONS, definition("demo.dev", "lamps", "Lamp", "Namespaced", "v1")).await.expect(201);
    let lamp = json!({"apiVersion": "demo.dev/v1", "kind": "Lamp", "metadata": {"name": "a"}});
    plane.post("/apis/demo.dev/v1/namespaces/default/lamps", lamp).await.expect(201);
    let snapshot = store.snapshot();
    let keys =
        snapshot.iter().map(|entry| entry.key.as_str()).filter(|key| key.ends_with("/lamps/default/a"));
    assert_eq!(keys.collect::<Vec<_>>(), ["crd:demo.dev/lamps/default/a"]);
    let marked =
        snapshot.iter().filter(|entry| entry.key.as_str().contains(':')).map(|entry| entry.key.group());
    let odd = marked.filter(|group| group.contains(':') && *group != "crd:demo.dev");
    assert_eq!(odd.collect::<Vec<_>>(), Vec::<&str>::new());
}
