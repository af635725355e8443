//! Tests that users cannot grant permissions that they do not hold, however they write them and however long their
//! lists are.

use std::time::Duration;

use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{APPLY, JSON_PATCH, MERGE, STRATEGIC, TestServer};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROOT: &str = "/apis/rbac.authorization.k8s.io/v1";
const EVERYBODY: &[&str] = &["system:authenticated"];
/// How long the checks of a test may take: unoptimized and alone they take a second, and this is for a machine that is
/// busy with other work. Without a comparison budget they would take hours.
const PATIENCE: Duration = Duration::from_secs(30);

/// One of the four kinds: the collection's path, the kind, content that grants too much, the same content as a merge
/// patch, and content that grants nothing.
struct Grant {
    collection: String,
    kind: &'static str,
    much: Value,
    little: Value,
}

fn grants() -> [Grant; 4] {
    let reading = |resource: &str| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
    let subjects = |user: &str| json!([{"apiGroup": GROUP, "kind": "User", "name": user}]);
    let role = |collection: &str, kind: &'static str| Grant {
        collection: format!("{ROOT}/{collection}"),
        kind,
        much: json!({"rules": reading("secrets")}),
        little: json!({"rules": reading("configmaps")}),
    };
    // The role of a binding cannot be changed; its subjects can.
    let role_ref = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"});
    let binding = |collection: &str, kind: &'static str| Grant {
        collection: format!("{ROOT}/{collection}"),
        kind,
        much: json!({"roleRef": role_ref, "subjects": subjects("mallory")}),
        little: json!({"roleRef": role_ref, "subjects": subjects("somebody")}),
    };
    [
        role("clusterroles", "ClusterRole"),
        role("namespaces/default/roles", "Role"),
        binding("clusterrolebindings", "ClusterRoleBinding"),
        binding("namespaces/default/rolebindings", "RoleBinding"),
    ]
}

/// Returns a user who may write everything in this group and read ConfigMaps, and nothing else.
async fn with_writer() -> (TestServer, TestServer) {
    let plane = TestServer::start().await;
    let verbs = ["get", "list", "create", "update", "patch", "delete", "deletecollection"];
    let rules = json!([{"apiGroups": [GROUP], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    give_mallory(&plane, "writer", rules).await;
    let mallory = plane.acting_as("mallory", EVERYBODY);
    (plane, mallory)
}

/// Gives Mallory these rules.
async fn give_mallory(plane: &TestServer, name: &str, rules: Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    plane.post(&format!("{ROOT}/clusterroles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "mallory"}]});
    plane.post(&format!("{ROOT}/clusterrolebindings"), binding).await.expect(201);
}

fn object(grant: &Grant, name: &str, content: &Value) -> Value {
    let mut object =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": grant.kind, "metadata": {"name": name}});
    for (field, value) in content.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

#[tokio::test]
async fn every_way_to_write_a_role_or_a_binding_is_checked() {
    let (plane, mallory) = with_writer().await;
    for grant in grants() {
        let collection = &grant.collection;
        let there = format!("{collection}/there");
        plane.post(collection, object(&grant, "there", &grant.little)).await.expect(201);
        let before = plane.get(&there).await.expect(200);
        let much = |name: &str| object(&grant, name, &grant.much);
        let operations = grant.much.as_object().unwrap().iter();
        let operations = operations
            .map(|(field, value)| json!({"op": "replace", "path": format!("/{field}"), "value": value}))
            .collect::<Vec<_>>();
        let apply = "fieldManager=mallory&force=true";
        let answers = [
            ("create", mallory.post(collection, much("new")).await),
            ("create in a dry run", mallory.post(&format!("{collection}?dryRun=All"), much("new")).await),
            ("update", mallory.put(&there, much("there")).await),
            ("create by update", mallory.put(&format!("{collection}/new"), much("new")).await),
            ("merge patch", mallory.patch(&there, MERGE, grant.much.clone()).await),
            ("strategic merge patch", mallory.patch(&there, STRATEGIC, grant.much.clone()).await),
            ("JSON patch", mallory.patch(&there, JSON_PATCH, operations.into()).await),
            ("apply", mallory.patch(&format!("{there}?{apply}"), APPLY, much("there")).await),
            (
                "create by apply",
                mallory.patch(&format!("{collection}/new?{apply}"), APPLY, much("new")).await,
            ),
        ];
        for (way, answer) in answers {
            let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
            let is_told = message.contains("is attempting to grant RBAC permissions not currently held");
            assert!(answer.code == 403 && is_told, "{way} of a {}: {} {message}", grant.kind, answer.code);
        }
        plane.get(&format!("{collection}/new")).await.expect(404);
        assert_eq!(plane.get(&there).await.expect(200), before, "{}", grant.kind);
        mallory.get("/api/v1/namespaces/default/secrets").await.expect(403);
    }
}

#[tokio::test]
async fn escalate_and_bind_on_a_name_apply_to_that_name_only() {
    let (plane, mallory) = with_writer().await;
    let rules = json!([{"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["there", "view"],
        "verbs": ["escalate", "bind"]}]);
    plane
        .post(&format!("{ROOT}/clusterroles"), json!({"metadata": {"name": "more"}, "rules": rules}))
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "more"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "more"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "mallory"}]});
    plane.post(&format!("{ROOT}/clusterrolebindings"), binding).await.expect(201);
    let [role, _, bindings, _] = grants();
    let path = |name: &str| format!("{}/{name}", role.collection);
    mallory.post(&role.collection, object(&role, "there", &role.much)).await.expect(403);
    mallory.put(&path("there"), object(&role, "there", &role.much)).await.expect(201);
    mallory.put(&path("other"), object(&role, "other", &role.much)).await.expect(403);
    let bind = |name: &str| {
        let mut binding = object(&bindings, name, &bindings.much);
        binding["roleRef"]["name"] = name.into();
        binding
    };
    mallory.post(&bindings.collection, bind("view")).await.expect(201);
    mallory.post(&bindings.collection, bind("edit")).await.expect(403);
}

#[tokio::test]
async fn long_lists_are_refused_in_time() {
    let (plane, mallory) = with_writer().await;
    let texts = |count: usize| (0..count).map(|at| format!("x{at}")).collect::<Vec<_>>();
    let role = |count: usize| {
        let rule = json!({"apiGroups": texts(count), "resources": texts(count), "verbs": texts(count),
            "resourceNames": texts(count)});
        json!({"metadata": {"name": "long"}, "rules": [rule]})
    };
    let roles = format!("{ROOT}/namespaces/default/roles");
    let started = ProcessorTime::start();
    for count in [60, 2_000, 20_000] {
        let refused = mallory.post(&roles, role(count)).await.expect(403);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("not currently held") && message.len() < 100_000, "{}", message.len());
    }
    // Two rules that together contain everything, and many that each contain slightly more than the previous one.
    let texts = texts(300);
    let stair = |groups: &[String], resources: &[String], verbs: &[String]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let mut stairs = vec![stair(&texts, &texts, &texts[..150]), stair(&texts, &texts, &texts[150..])];
    stairs.extend((1..300).map(|at| stair(&texts[at..], &texts[..at], &texts[..at])));
    give_mallory(&plane, "stairs", json!(stairs)).await;
    let refused = mallory.post(&roles, role(300)).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("more than 1000000 comparisons; write several smaller roles"), "{message}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    // An administrator's roles are stored as they are, and apply in full.
    plane.post(&roles, role(60)).await.expect(201);
}

/// The background tasks once tried to write such a role five times a second, forever.
#[tokio::test]
async fn an_aggregated_role_too_long_to_show_applies_and_delays_nothing() {
    let (plane, _) = with_writer().await;
    let roles = format!("{ROOT}/clusterroles");
    let rule = |name: &str| {
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"],
        "resourceNames": [name, "x".repeat(900_000)]})
    };
    let part =
        |name: &str| json!({"metadata": {"name": name, "labels": {"sum": "yes"}}, "rules": [rule(name)]});
    let sum = json!({"metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]}, "rules": []});
    plane.post(&roles, sum).await.expect(201);
    plane.post(&roles, part("one")).await.expect(201);
    let shown = |answer: &crate::test_server::Answer| answer.body["rules"].as_array().map_or(0, Vec::len);
    plane.until(&format!("{roles}/sum"), |answer| shown(answer) == 1).await;
    plane.post(&roles, part("two")).await.expect(201);
    let binding = json!({"metadata": {"name": "sum"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "sum"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "joe"}]});
    plane.post(&format!("{ROOT}/clusterrolebindings"), binding).await.expect(201);
    let joe = plane.acting_as("joe", EVERYBODY);
    for name in ["one", "two"] {
        joe.get(&format!("/api/v1/namespaces/default/secrets/{name}")).await.expect(404);
    }
    joe.get("/api/v1/namespaces/default/secrets/three").await.expect(403);
    // Other aggregated roles are still shown.
    let other = json!({"metadata": {"name": "zzz", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["demo.dev"], "resources": ["lamps"], "verbs": ["get"]}]});
    plane.post(&roles, other).await.expect(201);
    let has = |answer: &crate::test_server::Answer| answer.body["rules"].to_string().contains("demo.dev");
    plane.until(&format!("{roles}/view"), has).await;
    assert_eq!(shown(&plane.get(&format!("{roles}/sum")).await), 1);
}

#[tokio::test]
async fn a_role_bound_a_thousand_times_is_listed_once() {
    let (_plane, mallory) = with_writer().await;
    let filler = "x".repeat(400_000);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [filler]}]);
    let role = json!({"metadata": {"name": "long"}, "rules": rules});
    mallory.post(&format!("{ROOT}/namespaces/default/roles"), role).await.expect(201);
    for at in 0..200 {
        let binding = json!({"metadata": {"name": format!("b{at}")},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "long"},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "mallory"}]});
        mallory.post(&format!("{ROOT}/namespaces/default/rolebindings"), binding).await.expect(201);
    }
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = mallory.post(reviews, json!({"spec": {"namespace": "default"}})).await.expect(201);
    assert_eq!(answer["status"]["incomplete"], false);
    assert!(answer.to_string().len() < 2 * filler.len(), "{}", answer.to_string().len());
    // Different roles of the same length are listed up to the limit.
    for at in 0..8 {
        let name = format!("long{at}");
        let role = json!({"metadata": {"name": name}, "rules": rules});
        mallory.post(&format!("{ROOT}/namespaces/default/roles"), role).await.expect(201);
        let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "mallory"}]});
        mallory.post(&format!("{ROOT}/namespaces/default/rolebindings"), binding).await.expect(201);
    }
    let answer = mallory.post(reviews, json!({"spec": {"namespace": "default"}})).await.expect(201);
    assert_eq!(answer["status"]["incomplete"], true);
    assert!(answer.to_string().len() < 5 << 20, "{}", answer.to_string().len());
}
