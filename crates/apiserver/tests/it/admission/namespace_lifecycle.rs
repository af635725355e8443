//! Tests NamespaceLifecycle: what namespaces mean for the objects in them, and that it can be switched off.

use serde_json::json;

use super::{message, start_without};

const ELSEWHERE: &str = "/api/v1/namespaces/nowhere/configmaps";

#[tokio::test]
async fn objects_need_their_namespace_and_some_namespaces_stay() {
    let plane = start_without(&[]).await;
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(message(plane.post(ELSEWHERE, object.clone()).await, 404), "namespaces \"nowhere\" not found");
    let refused = plane.delete("/api/v1/namespaces/default").await;
    assert_eq!(
        message(refused, 403),
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[tokio::test]
async fn without_the_plugin_objects_need_no_namespace() {
    let plane = start_without(&["NamespaceLifecycle"]).await;
    plane.post(ELSEWHERE, json!({"metadata": {"name": "a"}})).await.expect(201);
}
