//! Tests DaemonSets: one Pod on every Node, as Nodes are added and removed.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, template};

/// Returns the Pods as `node image`.
async fn placed(lab: &TestCluster) -> Vec<String> {
    let mut placed: Vec<String> = lab
        .list::<Pod>()
        .await
        .iter()
        .map(|pod| {
            let spec = pod.spec.as_ref().unwrap();
            format!("{} {}", spec.node_name.as_deref().unwrap(), spec.containers[0].image.as_deref().unwrap())
        })
        .collect();
    placed.sort();
    placed
}

fn set(image: &str) -> Value {
    json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", image)}})
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_every_node() {
    let lab = TestCluster::new().await;
    lab.remove_node(super::kubelet::NODE).await;
    lab.add_node("a").await;
    lab.create::<DaemonSet>(set("ready")).await;
    assert_eq!(placed(&lab).await, ["a ready"]);
    lab.add_node("b").await;
    assert_eq!(placed(&lab).await, ["a ready", "b ready"]);
    let agent = lab.get::<DaemonSet>("agent").await;
    let status = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ];
    assert!(status.iter().all(|field| agent["status"][field] == 2), "{agent}");
    lab.patch::<DaemonSet>("agent", json!({"spec": {"template": template("agent", "ready2")}})).await;
    assert_eq!(placed(&lab).await, ["a ready2", "b ready2"]);
    // This is what `kubectl rollout undo` does.
    lab.patch::<DaemonSet>("agent", json!({"spec": {"template": template("agent", "ready")}})).await;
    assert_eq!(placed(&lab).await, ["a ready", "b ready"]);
    let revisions = lab.list::<ControllerRevision>().await;
    let mut numbers = revisions.iter().map(|revision| revision.revision).collect::<Vec<_>>();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "going back renumbers the old revision");
    let newest = revisions.iter().find(|revision| revision.revision == 3).unwrap();
    let hash = &newest.metadata.labels.as_ref().unwrap()["controller-revision-hash"];
    let carries = |pod: &Pod| pod.metadata.labels.as_ref().unwrap()["controller-revision-hash"] == *hash;
    assert!(lab.list::<Pod>().await.iter().all(carries), "the Pods are of the renumbered revision");
    lab.remove_node("a").await;
    assert_eq!(placed(&lab).await, ["b ready"]);
    let elsewhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "tape"}}}}});
    lab.patch::<DaemonSet>("agent", elsewhere).await;
    assert!(placed(&lab).await.is_empty());
}
