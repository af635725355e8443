//! Tests ReplicaSets: counting, adopting, releasing, status.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, template};

fn set(name: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image)}})
}

fn counts(set: &Value) -> [i64; 3] {
    ["replicas", "readyReplicas", "availableReplicas"].map(|field| set["status"][field].as_i64().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn as_many_pods_as_asked_for() {
    let lab = TestCluster::new().await;
    lab.create::<ReplicaSet>(set("web", 3, "ready")).await;
    assert_eq!(lab.pods().await, ["ready Running"; 3]);
    let web = lab.get::<ReplicaSet>("web").await;
    assert_eq!(counts(&web), [3, 3, 3]);
    assert_eq!(web["status"]["observedGeneration"], 1);
    assert!(lab.names::<Pod>().await.iter().all(|name| name.starts_with("web-") && name.len() == 9));
    let events = lab.events("web").await;
    assert!(events.len() == 3 && events[0].starts_with("SuccessfulCreate: Created pod: web-"), "{events:?}");
    for (replicas, expected) in [(5, 5), (1, 1), (0, 0), (2, 2)] {
        lab.patch::<ReplicaSet>("web", json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(counts(&lab.get::<ReplicaSet>("web").await), [expected; 3]);
        assert_eq!(lab.pods().await.len(), usize::try_from(expected).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_or_failed_is_replaced() {
    let lab = TestCluster::new().await;
    lab.create::<ReplicaSet>(set("web", 2, "ready")).await;
    let first = lab.names::<Pod>().await.remove(0);
    lab.delete::<Pod>(&first, &DeleteParams::default()).await;
    let names = lab.names::<Pod>().await;
    assert!(names.len() == 2 && !names.contains(&first), "{names:?}");
    lab.say(&names[0], json!({"phase": "Failed"})).await;
    assert_eq!(lab.pods().await, ["ready Failed", "ready Running", "ready Running"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_by_their_labels() {
    let lab = TestCluster::new().await;
    let stray = json!({"metadata": {"name": "stray", "labels": {"app": "web"}},
                       "spec": {"containers": [{"name": "main", "image": "ready"}]}});
    lab.create::<Pod>(stray).await;
    let web = lab.create::<ReplicaSet>(set("web", 2, "ready")).await;
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(lab.pods().await.len(), 2, "the stray counts");
    assert_eq!(owner(&lab.get::<Pod>("stray").await), json!(web.metadata.uid));
    lab.patch::<Pod>("stray", json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(lab.pods().await.len(), 3, "a released Pod is replaced and left alone");
    assert_eq!(owner(&lab.get::<Pod>("stray").await), Value::Null);
    lab.patch::<Pod>("stray", json!({"metadata": {"labels": {"app": "web"}}})).await;
    assert_eq!(lab.pods().await.len(), 2, "one too many goes");
}

#[tokio::test(start_paused = true)]
async fn minimum_ready_time_delays_availability() {
    let lab = TestCluster::new().await;
    let mut web = set("web", 1, "ready");
    web["spec"]["minReadySeconds"] = json!(10);
    lab.create::<ReplicaSet>(web).await;
    assert_eq!(counts(&lab.get::<ReplicaSet>("web").await), [1, 1, 0]);
    lab.pass(11).await;
    assert_eq!(counts(&lab.get::<ReplicaSet>("web").await), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn each_cascade_of_a_deletion() {
    let lab = TestCluster::new().await;
    for (how, left) in [
        (DeleteParams::background(), 0),
        (DeleteParams::foreground(), 0),
        (
            DeleteParams {
                propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
                ..DeleteParams::default()
            },
            2,
        ),
    ] {
        lab.create::<ReplicaSet>(set("web", 2, "ready")).await;
        lab.delete::<ReplicaSet>("web", &how).await;
        lab.pass(5).await;
        assert_eq!(lab.names::<ReplicaSet>().await.len(), 0);
        assert_eq!(lab.pods().await.len(), left, "{how:?}");
    }
    lab.create::<ReplicaSet>(set("web", 2, "ready")).await;
    assert_eq!(lab.pods().await.len(), 2, "orphans are taken in");
}

#[tokio::test(start_paused = true)]
async fn a_refused_template_is_told_and_retried() {
    let lab = TestCluster::new().await;
    let quota = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "serviceAccountName": "nobody", "containers": [{"name": "main", "image": "ready"}]}}}});
    lab.create::<ReplicaSet>(quota).await;
    let web = lab.get::<ReplicaSet>("web").await;
    if lab.pods().await.is_empty() {
        assert_eq!(condition(&web, "ReplicaFailure"), "True FailedCreate");
        assert!(lab.events("web").await[0].starts_with("FailedCreate: Error creating: "));
    }
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let lab = TestCluster::new().await;
    lab.create::<ReplicaSet>(set("web", 3, "ready")).await;
    let version = |web: &Value| web["metadata"]["resourceVersion"].clone();
    let before = version(&lab.get::<ReplicaSet>("web").await);
    lab.patch::<ReplicaSet>("web", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    let poked = version(&lab.get::<ReplicaSet>("web").await);
    lab.pass(3600).await;
    assert_eq!(version(&lab.get::<ReplicaSet>("web").await), poked);
    assert_ne!(before, poked);
}
