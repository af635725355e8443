//! Tests PodSecurity: the labels of a namespace decide what its Pods may do.

use std::sync::Arc;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_store::Memory;
use serde_json::{Value, json};

use super::{message, pod, start_without, warnings};
use crate::test_server::{MERGE, TestServer};

async fn label(plane: &TestServer, labels: &Value) -> crate::test_server::Answer {
    let labels = json!({"metadata": {"labels": labels}});
    plane.patch("/api/v1/namespaces/default", MERGE, labels).await
}

fn privileged(name: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
    pod(name, &json!({"containers": [container]}))
}

#[tokio::test]
async fn pods_that_violate_the_enforced_standard_are_refused() {
    let plane = start_without(&["ServiceAccount"]).await;
    plane.post(super::PODS, privileged("before")).await.expect(201);
    let labelled = label(&plane, &json!({"pod-security.kubernetes.io/enforce": "baseline"})).await;
    assert_eq!(
        warnings(&labelled),
        [
            "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "before: privileged",
        ]
    );
    let refused = plane.post(super::PODS, privileged("a")).await;
    assert_eq!(
        message(refused, 403),
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set \
         securityContext.privileged=true)"
    );
    plane.post(super::PODS, pod("b", &json!({}))).await.expect(201);
}

#[tokio::test]
async fn templates_are_warned_about_and_not_refused() {
    let plane = start_without(&[]).await;
    label(&plane, &json!({"pod-security.kubernetes.io/warn": "baseline"})).await.expect(200);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": privileged("x")["spec"]});
    let deployment = json!({"metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = plane.post("/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let expected = "would violate PodSecurity \"baseline:latest\": privileged (container \"c\" must not set \
                    securityContext.privileged=true)";
    assert_eq!((made.code, warnings(&made)), (201, vec![expected.to_owned()]));
    let made = plane.post(super::PODS, privileged("a")).await;
    assert_eq!((made.code, warnings(&made)), (201, vec![expected.to_owned()]));
}

#[tokio::test]
async fn labels_must_be_understood() {
    let plane = start_without(&[]).await;
    let refused = label(&plane, &json!({"pod-security.kubernetes.io/enforce": "odd"})).await;
    assert_eq!(
        message(refused, 422),
        "Namespace \"default\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"odd\": \
         must be one of privileged, baseline, restricted"
    );
}

#[tokio::test]
async fn the_configuration_has_defaults_and_exemptions() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  \
        configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    \
        defaults: {enforce: baseline}\n    exemptions: {namespaces: [kube-system]}\n";
    let plugins = AdmissionConfig::without_service_accounts().configured(text).unwrap();
    let plane = TestServer::start_with(ApiServer::builder(Arc::new(Memory::new())).admission(plugins)).await;
    plane.post(super::PODS, privileged("a")).await.expect(403);
    plane.post("/api/v1/namespaces/kube-system/pods", privileged("a")).await.expect(201);
}
