//! Tests the examples in the guide: each is sent to a server and does what the text says.

use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_store::Memory;
use serde_json::json;

use super::webhook_server::{Behaviour, WebhookServer};
use super::{PODS, message, pod, start_without};
use crate::test_server::{MERGE, TestServer};

const GUIDE: &str = include_str!("../../../../../docs/guide/admission.md");
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns the examples that contain a word, document by document.
fn example(word: &str) -> Vec<String> {
    let blocks = GUIDE.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    let found = blocks.filter(|block| block.contains(word)).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "one example with {word}");
    found[0].split("---\n").map(ToOwned::to_owned).collect()
}

async fn create(plane: &TestServer, path: &str, text: &str) {
    plane.raw("POST", path, "application/yaml", text).await.expect(201);
}

#[tokio::test]
async fn the_policy_limits_replicas() {
    let plane = start_without(&["ServiceAccount"]).await;
    let documents = example("kind: ValidatingAdmissionPolicy\n");
    create(&plane, &format!("{GROUP}/validatingadmissionpolicies"), &documents[0]).await;
    create(&plane, &format!("{GROUP}/validatingadmissionpolicybindings"), &documents[1]).await;
    let is_checked = |answer: &crate::test_server::Answer| answer.body["status"]["typeChecking"] == json!({});
    plane.until(&format!("{GROUP}/validatingadmissionpolicies/replica-limit"), is_checked).await;
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "writer"}, "rules": rules});
    plane.post(&format!("{rbac}/clusterroles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    plane.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    let deployment = |name: &str, replicas: usize| {
        json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let jane = plane.acting_as("jane", &[]);
    jane.post(path, deployment("five", 5)).await.expect(201);
    let refused = message(jane.post(path, deployment("six", 6)).await, 422);
    assert!(refused.ends_with("denied request: at most 5 replicas, not 6"), "{refused}");
    plane.post(path, deployment("six", 6)).await.expect(201);
}

#[tokio::test]
async fn the_webhook_is_asked_in_its_namespaces() {
    let plane = start_without(&["ServiceAccount"]).await;
    let server =
        WebhookServer::start(|_| Behaviour::Respond(json!({"allowed": false, "status": {"message": "why"}})))
            .await;
    let text = example("kind: ValidatingWebhookConfiguration").concat();
    let text =
        text.replace("127.0.0.1:9443", &server.address.to_string()).replace("CERTIFICATE", &server.bundle);
    create(&plane, &format!("{GROUP}/validatingwebhookconfigurations"), &text).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = json!({"metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    plane.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    let (path, jane) = ("/api/v1/namespaces/default/configmaps", plane.acting_as("jane", &[]));
    let object = |name: &str| json!({"metadata": {"name": name}});
    // The namespace has no label yet.
    jane.post(path, object("a")).await.expect(201);
    let labels = json!({"metadata": {"labels": {"checked": "yes"}}});
    plane.patch("/api/v1/namespaces/default", MERGE, labels).await.expect(200);
    let refused = message(jane.post(path, object("b")).await, 400);
    assert!(refused.ends_with("config-check.example.com\" denied the request: why"), "{refused}");
    plane.post(path, object("b")).await.expect(201);
}

#[tokio::test]
async fn the_configuration_applies_a_standard() {
    let text = example("kind: AdmissionConfiguration").concat();
    let config = AdmissionConfig::without_service_accounts().configured(&text).unwrap();
    let builder = ApiServer::builder(Arc::new(Memory::new())).admission(config);
    let plane = TestServer::start_with(builder).await;
    let privileged =
        json!({"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]});
    let mut object = pod("p", &json!({}));
    object["spec"] = privileged;
    let refused = message(plane.post(PODS, object.clone()).await, 403);
    assert!(refused.contains("violates PodSecurity \"baseline:latest\": privileged"), "{refused}");
    plane.post("/api/v1/namespaces/kube-system/pods", object).await.expect(201);
}
