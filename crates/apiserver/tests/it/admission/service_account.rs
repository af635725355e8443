//! Tests ServiceAccount: Pods get an account and a token.

use serde_json::json;

use super::{PODS, message, pod, start_without};
use crate::test_server::MERGE;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test]
async fn a_pod_gets_the_default_account_its_token_and_its_pull_secrets() {
    let plane = start_without(&[]).await;
    let secrets = json!({"imagePullSecrets": [{"name": "registry"}]});
    plane.patch(&format!("{ACCOUNTS}/default"), MERGE, secrets.clone()).await.expect(200);
    let made = plane.post(PODS, pod("a", &json!({}))).await.expect(201);
    let spec = &made["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    assert_eq!(spec["imagePullSecrets"], secrets["imagePullSecrets"]);
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mount["name"], spec["volumes"][0]["name"]);
    let sources = &spec["volumes"][0]["projected"]["sources"];
    assert_eq!(sources[0]["serviceAccountToken"], json!({"path": "token", "expirationSeconds": 3607}));
    let silent =
        plane.post(PODS, pod("b", &json!({"automountServiceAccountToken": false}))).await.expect(201);
    assert!(silent["spec"].get("volumes").is_none() && silent["spec"]["serviceAccountName"] == "default");
}

#[tokio::test]
async fn an_account_that_does_not_exist_is_refused() {
    let plane = start_without(&[]).await;
    let refused = plane.post(PODS, pod("a", &json!({"serviceAccountName": "nobody"}))).await;
    assert_eq!(
        message(refused, 403),
        "pods \"a\" is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found"
    );
}

#[tokio::test]
async fn a_pod_in_a_new_namespace_need_not_wait_for_its_account() {
    let plane = start_without(&[]).await;
    for at in 0..20 {
        let name = format!("n{at}");
        plane.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.expect(201);
        plane.post(&format!("/api/v1/namespaces/{name}/pods"), pod("a", &json!({}))).await.expect(201);
    }
}

#[tokio::test]
async fn the_plugin_can_be_disabled() {
    let plane = start_without(&["ServiceAccount"]).await;
    let made = plane.post(PODS, pod("a", &json!({}))).await.expect(201);
    assert!(made["spec"].get("serviceAccountName").is_none() && made["spec"].get("volumes").is_none());
}
