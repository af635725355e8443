//! Tests ReplicationControllers: where they differ from ReplicaSets, and that they otherwise behave the same.

use k8s_openapi::api::core::v1::{Pod, ReplicationController, ResourceQuota};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, template};

fn controller(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"app": name}, "template": template(name, "ready")}})
}

fn counts(controller: &Value) -> [i64; 3] {
    ["replicas", "readyReplicas", "availableReplicas"]
        .map(|field| controller["status"][field].as_i64().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn as_many_pods_as_asked_for() {
    let lab = TestCluster::new().await;
    lab.create::<ReplicationController>(controller("web", 2)).await;
    assert_eq!(lab.pods().await, ["ready Running"; 2]);
    let web = lab.get::<ReplicationController>("web").await;
    assert_eq!((counts(&web), &web["status"]["observedGeneration"]), ([2; 3], &json!(1)));
    assert_eq!(web["status"].get("terminatingReplicas"), None, "only ReplicaSets have this field");
    let events = lab.events("web").await;
    assert!(events.len() == 2 && events[0].starts_with("SuccessfulCreate: Created pod: web-"), "{events:?}");
    for replicas in [3, 1] {
        lab.patch::<ReplicationController>("web", json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(counts(&lab.get::<ReplicationController>("web").await), [replicas; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_by_their_labels() {
    let lab = TestCluster::new().await;
    let stray = json!({"metadata": {"name": "stray", "labels": {"app": "web"}},
                       "spec": {"containers": [{"name": "main", "image": "ready"}]}});
    lab.create::<Pod>(stray).await;
    let web = lab.create::<ReplicationController>(controller("web", 1)).await;
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0].clone();
    let adopted = owner(&lab.get::<Pod>("stray").await);
    assert_eq!(
        (&adopted["kind"], &adopted["uid"]),
        (&json!("ReplicationController"), &json!(web.metadata.uid))
    );
    assert_eq!(lab.pods().await.len(), 1, "the stray counts");
    lab.patch::<Pod>("stray", json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(lab.pods().await.len(), 2, "a released Pod is replaced and left alone");
    assert_eq!(owner(&lab.get::<Pod>("stray").await), Value::Null);
}

/// When it is scaled down to the number that the quota allows, the controller is no longer failing.
#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_is_told_while_it_lasts() {
    let lab = TestCluster::new().await;
    lab.create::<ResourceQuota>(json!({"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}})).await;
    lab.create::<ReplicationController>(controller("web", 3)).await;
    lab.pass(2).await;
    let web = lab.get::<ReplicationController>("web").await;
    assert_eq!(
        (condition(&web, "ReplicaFailure"), lab.pods().await.len()),
        ("True FailedCreate".to_owned(), 2)
    );
    lab.patch::<ReplicationController>("web", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(condition(&lab.get::<ReplicationController>("web").await, "ReplicaFailure"), "-");
}

/// Only this kind has the default that its Pods stay when it is deleted.
#[tokio::test(start_paused = true)]
async fn pods_outlive_their_controller_unless_asked_otherwise() {
    let lab = TestCluster::new().await;
    lab.create::<ReplicationController>(controller("web", 2)).await;
    lab.delete::<ReplicationController>("web", &DeleteParams::default()).await;
    lab.pass(5).await;
    assert_eq!(lab.pods().await.len(), 2);
    lab.create::<ReplicationController>(controller("web", 2)).await;
    lab.delete::<ReplicationController>("web", &DeleteParams::background()).await;
    lab.pass(5).await;
    assert_eq!(lab.pods().await.len(), 0);
}
