//! Tests Priority: Pods get the priority of their class.

use serde_json::json;

use super::{PODS, message, pod, start_without};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

#[tokio::test]
async fn pods_get_the_priority_of_their_class_and_one_class_is_the_default() {
    let plane = start_without(&[]).await;
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 7, "globalDefault": true});
    plane.post(CLASSES, class("seven")).await.expect(201);
    assert_eq!(
        message(plane.post(CLASSES, class("other")).await, 403),
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass seven is already marked as default. \
         Only one default can exist"
    );
    let made = plane.post(PODS, pod("a", &json!({}))).await.expect(201);
    assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(7), &json!("seven")));
    assert_eq!(
        message(plane.post(PODS, pod("b", &json!({"priorityClassName": "none"}))).await, 403),
        "pods \"b\" is forbidden: no PriorityClass with name none was found"
    );
    let made = start_without(&["Priority"]).await.post(PODS, pod("a", &json!({}))).await.expect(201);
    assert!(made["spec"].get("priority").is_none());
}
