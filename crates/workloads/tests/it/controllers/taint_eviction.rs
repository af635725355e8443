//! Tests Pods on Nodes with taints that they do not tolerate, or only for a while.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition};

/// Creates a Pod on the Node `one` that tolerates the taint for this many seconds.
async fn pod(lab: &TestCluster, name: &str, seconds: Option<i64>) {
    let tolerations: Vec<Value> = seconds
        .into_iter()
        .map(|seconds| json!({"key": "evict", "value": "yes", "effect": "NoExecute", "tolerationSeconds": seconds}))
        .collect();
    // The finalizer keeps the Pod, so that it can be checked.
    let pod = json!({"metadata": {"name": name, "finalizers": ["test/keep"]}, "spec": {"nodeName": "one",
        "tolerations": tolerations, "containers": [{"name": "main", "image": "wait"}]}});
    lab.create::<Pod>(pod).await;
}

async fn taint(lab: &TestCluster, effects: &[&str]) {
    let taints: Vec<Value> =
        effects.iter().map(|effect| json!({"key": "evict", "value": "yes", "effect": effect})).collect();
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    Api::<Node>::all(lab.client()).patch("one", &PatchParams::default(), &patch).await.unwrap();
    lab.rest().await;
}

/// Returns the names of the Pods that are not being deleted.
async fn staying(lab: &TestCluster) -> Vec<String> {
    let pods = lab.list::<Pod>().await.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.map(|pod| pod.metadata.name.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_are_evicted_when_they_no_longer_tolerate_their_node() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("one").await;
    for (name, seconds) in [("never", None), ("short", Some(5)), ("long", Some(60))] {
        pod(&lab, name, seconds).await;
    }
    taint(&lab, &["NoSchedule"]).await;
    assert_eq!(staying(&lab).await.len(), 3, "only NoExecute evicts");
    taint(&lab, &["NoExecute"]).await;
    assert_eq!(staying(&lab).await, ["long", "short"]);
    lab.pass(6).await;
    assert_eq!(staying(&lab).await, ["long"]);
    let short = lab.get::<Pod>("short").await;
    assert_eq!(condition(&short, "DisruptionTarget"), "True DeletionByTaintManager");
    assert_eq!(lab.events("short").await, ["TaintManagerEviction: Marking for deletion Pod default/short"]);
    lab.pass(60).await;
    assert!(staying(&lab).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_removed_evicts_nothing() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("one").await;
    pod(&lab, "one", Some(30)).await;
    taint(&lab, &["NoExecute"]).await;
    lab.pass(20).await;
    taint(&lab, &[]).await;
    assert_eq!(lab.events("one").await, ["TaintManagerEviction: Cancelling deletion of Pod default/one"]);
    lab.pass(60).await;
    taint(&lab, &["NoExecute"]).await;
    lab.pass(20).await;
    assert_eq!(staying(&lab).await, ["one"], "the time begins anew");
    lab.pass(11).await;
    assert!(staying(&lab).await.is_empty());
}
