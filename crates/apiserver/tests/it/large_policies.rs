//! Tests roles and bindings that are designed to be expensive: a decision takes no longer for users who wrote hundreds
//! of thousands of verbs, subjects or groups, and no response lists all of them.
//!
//! The allowed times are a hundred times the usual times, and a fraction of what reading everything each time would
//! take.

use std::time::Duration;

use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{MERGE, TestServer};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long a handful of decisions may take on a busy machine, without optimization.
const SOON: Duration = Duration::from_secs(3);

fn binding(name: &str, role: &str, subjects: &Value) -> Value {
    json!({"metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
}

async fn give(plane: &TestServer, role: &str, rules: Value) {
    let role = json!({"metadata": {"name": role}, "rules": rules});
    plane.post(&format!("{RBAC}/roles"), role).await.expect(201);
}

#[tokio::test]
async fn a_review_with_many_groups_and_a_binding_with_many_subjects() {
    let plane = TestServer::start().await;
    give(&plane, "r", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])).await;
    let subject = |at: usize| json!({"kind": "Group", "name": format!("g{at}"), "apiGroup": "rbac.authorization.k8s.io"});
    let subjects: Vec<_> = (0..15_000).map(subject).collect();
    plane.post(&format!("{RBAC}/rolebindings"), binding("b", "r", &json!(subjects))).await.expect(201);
    let groups: Vec<_> = (0..20_000).map(|at| format!("other{at}")).chain(["g14999".to_owned()]).collect();
    let review = json!({"spec": {"user": "u", "groups": groups,
        "resourceAttributes": {"namespace": "default", "resource": "pods", "verb": "get"}}});
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let started = ProcessorTime::start();
    let answer = plane.post(path, review).await.expect(201);
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    assert_eq!(answer["status"]["allowed"], true);
    assert!(
        answer["status"]["reason"].as_str().unwrap().ends_with("to Group \"g14999\""),
        "{}",
        answer["status"]
    );
}

#[tokio::test]
async fn a_long_role_with_many_bindings() {
    let plane = TestServer::start().await;
    let verbs: Vec<_> = (0..100_000).map(|at| format!("v{at}")).collect();
    give(&plane, "long", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])).await;
    give(&plane, "wide", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await;
    let jane = json!([{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]);
    for at in 0..300 {
        let long = binding(&format!("long-{at}"), "long", &jane);
        plane.post(&format!("{RBAC}/rolebindings"), long).await.expect(201);
    }
    plane.post(&format!("{RBAC}/rolebindings"), binding("wide", "wide", &jane)).await.expect(201);
    let jane = plane.acting_as("jane", &[]);
    let started = ProcessorTime::start();
    for _ in 0..20 {
        jane.get(MAPS).await.expect(200);
        jane.get(&format!("{MAPS}/x")).await.expect(403);
    }
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
}

#[tokio::test]
async fn rules_are_listed_up_to_a_limit_even_if_their_texts_are_empty() {
    let plane = TestServer::start().await;
    let verbs = vec![""; 200_000];
    give(&plane, "empty", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}])).await;
    let jane = json!([{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]);
    plane.post(&format!("{RBAC}/rolebindings"), binding("b", "empty", &jane)).await.expect(201);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = plane.acting_as("jane", &["system:authenticated"]);
    let answer = answer.post(path, json!({"spec": {"namespace": "default"}})).await.expect(201);
    assert_eq!(answer["status"]["incomplete"], true);
    assert!(answer.to_string().len() < 1 << 20, "{} bytes", answer.to_string().len());
}

/// Returns a Role with this many rules that nobody's requests match, all different.
fn useless_role(name: &str, rules: usize) -> Value {
    let rule = |at: usize| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": [format!("{name}-{at}")]});
    json!({"metadata": {"name": name}, "rules": (0..rules).map(rule).collect::<Vec<_>>()})
}

/// Whoever administers a namespace can write as many Roles as the store takes, and bind them all to one group.
#[tokio::test]
async fn a_decision_stays_cheap_however_many_rules_a_namespace_wants() {
    let plane = TestServer::start().await;
    let refusal = plane.post(&format!("{RBAC}/roles"), useless_role("huge", 20_000)).await.expect(403);
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("at most 20000 comparisons"), "{message}");
    let team = json!([{"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"}]);
    let mut written = 0;
    for at in 0..40 {
        let name = format!("r{at}");
        written +=
            u32::from(plane.post(&format!("{RBAC}/roles"), useless_role(&name, 600)).await.code == 201);
        plane.post(&format!("{RBAC}/rolebindings"), binding(&name, &name, &team)).await.expect(201);
    }
    assert_eq!(written, 8, "eight have 19 200 comparisons");
    let grow = json!({"rules": useless_role("r0", 2000)["rules"]});
    let path = format!("{RBAC}/roles/r0");
    plane.raw("PATCH", &path, MERGE, &grow.to_string()).await.expect(403);
    let shrink = json!({"rules": useless_role("r0", 599)["rules"]});
    plane.raw("PATCH", &path, MERGE, &shrink.to_string()).await.expect(200);
    let jane = plane.acting_as("jane", &["team"]);
    let started = ProcessorTime::start();
    for _ in 0..20 {
        jane.get(&format!("{MAPS}/x")).await.expect(403);
    }
    assert!(started.elapsed() < SOON / 6, "it took {:?}", started.elapsed());
}
