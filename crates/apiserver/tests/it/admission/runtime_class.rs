//! Tests RuntimeClass: the class must exist, and determines overhead, selector and tolerations.

use serde_json::json;

use super::{PODS, message, pod, start_without};

#[tokio::test]
async fn a_class_must_exist_and_decides_overhead_and_place() {
    let plane = start_without(&[]).await;
    assert_eq!(
        message(plane.post(PODS, pod("a", &json!({"runtimeClassName": "none"}))).await, 403),
        "pods \"a\" is forbidden: pod rejected: RuntimeClass \"none\" not found"
    );
    let class = json!({"metadata": {"name": "odd"}, "handler": "odd", "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}});
    plane.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.expect(201);
    let made = plane.post(PODS, pod("a", &json!({"runtimeClassName": "odd"}))).await.expect(201);
    let spec = &made["spec"];
    assert_eq!((&spec["overhead"], &spec["nodeSelector"]), (&json!({"cpu": "1"}), &json!({"a": "b"})));
    assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]), "it includes the default ones");
    let refused = plane.post(PODS, pod("b", &json!({"overhead": {"cpu": "1"}}))).await;
    assert_eq!(
        message(refused, 403),
        "pods \"b\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
}
