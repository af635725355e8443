//! Tests DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection and TaintNodesByCondition.

use serde_json::json;

use super::start_without;
use crate::test_server::MERGE;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

#[tokio::test]
async fn claims_get_the_default_class_and_a_finalizer() {
    let plane = start_without(&[]).await;
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let made = plane.post(CLAIMS, claim("before")).await.expect(201);
    assert!(made["spec"].get("storageClassName").is_none());
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let class =
        json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "demo.dev/p"});
    plane.post("/apis/storage.k8s.io/v1/storageclasses", class).await.expect(201);
    let made = plane.post(CLAIMS, claim("after")).await.expect(201);
    assert_eq!(made["spec"]["storageClassName"], "fast");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let plane = start_without(&["StorageObjectInUseProtection"]).await;
    let made = plane.post(CLAIMS, claim("bare")).await.expect(201);
    assert!(made["metadata"].get("finalizers").is_none());
}

#[tokio::test]
async fn an_ingress_gets_the_default_class() {
    let plane = start_without(&[]).await;
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "web", "annotations": annotations}, "spec": {"controller": "demo.dev/c"}});
    plane.post("/apis/networking.k8s.io/v1/ingressclasses", class).await.expect(201);
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    assert_eq!(plane.post(path, ingress).await.expect(201)["spec"]["ingressClassName"], "web");
}

#[tokio::test]
async fn a_node_takes_no_pods_until_it_is_ready() {
    let plane = start_without(&[]).await;
    let made = plane.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.expect(201);
    let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!(made["spec"]["taints"], taint);
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    plane.patch("/api/v1/nodes/n/status", MERGE, ready("True")).await.expect(200);
    plane.until("/api/v1/nodes/n", |answer| answer.body["spec"].get("taints").is_none()).await;
    plane.patch("/api/v1/nodes/n/status", MERGE, ready("Unknown")).await.expect(200);
    let is_tainted = |taints: &serde_json::Value| taints[0]["key"] == "node.kubernetes.io/unreachable";
    plane.until("/api/v1/nodes/n", |answer| is_tainted(&answer.body["spec"]["taints"])).await;
}
