//! Faults of admission: an exhausted quota, a webhook that does not answer, a policy that denies; and refused
//! creations, of which nothing is stored.

use std::net::TcpListener;

use super::names;
use super::operators::create;
use crate::pods::{kubectl, told};
use crate::server::{Server, eventually};

const QUOTA: &str = r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
    "spec": {"hard": {"pods": "0", "configmaps": "1"}}}"#;

#[tokio::test]
async fn why_names_a_quota_that_is_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    create(&server, folder.path(), QUOTA).await;
    // Counting the existing objects takes a moment, and until then everything is refused.
    eventually("the quota is counted", || async {
        let status = told(&server, &["get", "quota", "small", "-o", "jsonpath={.status.used}"]).await;
        (!status.is_empty()).then_some(())
    })
    .await;
    told(&server, &["create", "deployment", "many", "--image=none", "--replicas=3"]).await;
    let text =
        names(config, &["deploy", "many"], &["ReplicaSet many-", "exceeded quota: small", "limited: pods=0"])
            .await;
    assert!(text.starts_with("Deployment many → ReplicaSet many-"), "{text}");

    let refused = kubectl(&server, &["create", "configmap", "second", "--from-literal=a=b"]).await;
    assert!(refused.unwrap_err().contains("exceeded quota"));
    names(
        config,
        &["configmap", "second"],
        &["ConfigMap second does not exist", "was to be created by kubectl", "exceeded quota: small"],
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn why_names_a_webhook_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/check", silent.local_addr().unwrap());
    let hook = format!(
        r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {{"name": "silent"}}, "webhooks": [{{"name": "silent.example.dev", "clientConfig": {{"url": "{url}"}},
        "rules": [{{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}}],
        "failurePolicy": "Fail", "timeoutSeconds": 1, "sideEffects": "None", "admissionReviewVersions": ["v1"]}}]}}"#
    );
    create(&server, folder.path(), &hook).await;
    told(&server, &["create", "deployment", "held", "--image=none"]).await;
    let text = names(
        config,
        &["deploy", "held"],
        &["ReplicaSet held-", "failed calling webhook", "silent.example.dev"],
    )
    .await;
    assert!(text.starts_with("Deployment held → ReplicaSet held-"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn why_names_a_policy_that_denies() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    let policy = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-pods"}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "false", "message": "Pods are not welcome"}]}}"#;
    let binding = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-pods"}, "spec": {"policyName": "no-pods", "validationActions": ["Deny"]}}"#;
    create(&server, folder.path(), policy).await;
    create(&server, folder.path(), binding).await;
    told(&server, &["create", "deployment", "held", "--image=none"]).await;
    names(config, &["deploy", "held"], &["ReplicaSet held-", "no-pods", "Pods are not welcome"]).await;
    server.stop().await;
}
