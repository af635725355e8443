//! Tests Nodes that are deleted, silent or stopped, and what happens to their Pods.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition};

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "main", "image": "wait"}]}})
}

async fn say_of_node(lab: &TestCluster, name: &str, status: &str, reason: &str) {
    let ready = json!({"type": "Ready", "status": status, "reason": reason});
    let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    let nodes = Api::<Node>::all(lab.client());
    nodes.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    lab.rest().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_are_collected() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("there").await;
    for (name, node) in [("stays", "there"), ("dying", "ghost"), ("running", "ghost")] {
        lab.create::<Pod>(pod(name, node)).await;
    }
    lab.delete::<Pod>("dying", &DeleteParams::default().grace_period(3)).await;
    lab.pass(20).await;
    assert_eq!(lab.names::<Pod>().await, ["dying", "running", "stays"], "the Node may be about to come");
    lab.pass(40).await;
    assert_eq!(lab.names::<Pod>().await, ["stays"]);
    lab.remove_node("there").await;
    lab.pass(60).await;
    assert!(lab.names::<Pod>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_in_time_keeps_its_pods() {
    let lab = TestCluster::without_kubelet().await;
    lab.create::<Pod>(pod("early", "late")).await;
    lab.pass(30).await;
    lab.add_node("late").await;
    lab.pass(60).await;
    assert_eq!(lab.names::<Pod>().await, ["early"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_doubted_and_its_pods_are() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("silent").await;
    say_of_node(&lab, "silent", "True", "NodeReady").await;
    let leases: Api<Lease> = Api::namespaced(lab.client(), "kube-node-lease");
    let now = "2027-01-15T08:00:00.000000Z";
    let lease =
        json!({"metadata": {"name": "silent"}, "spec": {"leaseDurationSeconds": 40, "renewTime": now}});
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    lab.create::<Pod>(pod("one", "silent")).await;
    lab.say("one", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})).await;
    lab.pass(30).await;
    assert_eq!(condition(&lab.get::<Pod>("one").await, "Ready"), "True ");
    lab.pass(30).await;
    let node = Api::<Node>::all(lab.client()).get("silent").await.unwrap();
    assert_eq!(condition(&json!(node), "Ready"), "Unknown NodeStatusUnknown");
    assert_eq!(condition(&lab.get::<Pod>("one").await, "Ready"), "False NodeLost");
}

/// A cleanly stopped Node runs nothing: Pods that are being deleted there are removed.
#[tokio::test(start_paused = true)]
async fn dying_pods_of_a_stopped_node_go() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("here").await;
    for name in ["dies", "waits"] {
        lab.create::<Pod>(pod(name, "here")).await;
    }
    say_of_node(&lab, "here", "False", "KubeletNotReady").await;
    lab.delete::<Pod>("dies", &DeleteParams::default().grace_period(3)).await;
    lab.pass(60).await;
    assert_eq!(lab.names::<Pod>().await, ["dies", "waits"], "who knows what runs there");
    say_of_node(&lab, "here", "False", "NodeStopped").await;
    assert_eq!(lab.names::<Pod>().await, ["waits"]);
}

/// A node of processes that was killed and does not come back: its processes exited long ago, so nothing holds the
/// Pods.
#[tokio::test(start_paused = true)]
async fn dying_pods_of_a_lost_node_go() {
    let lab = TestCluster::without_kubelet().await;
    let nodes: Api<Node> = Api::all(lab.client());
    for (node, labels) in [("ours", json!({"homeostat.dev/processes": "true"})), ("theirs", json!({}))] {
        lab.add_node(node).await;
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
        let silent =
            json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2027-01-15T08:00:00Z"});
        let patch = Patch::Merge(json!({"status": {"conditions": [silent]}}));
        nodes.patch_status(node, &PatchParams::default(), &patch).await.unwrap();
        for (name, grace) in [("dies", 30), ("dies-slowly", 600)] {
            let name = format!("{node}-{name}");
            lab.create::<Pod>(pod(&name, node)).await;
            lab.delete::<Pod>(&name, &DeleteParams::default().grace_period(grace)).await;
        }
        lab.create::<Pod>(pod(&format!("{node}-waits"), node)).await;
    }
    lab.pass(290).await;
    assert_eq!(lab.names::<Pod>().await.len(), 6, "it may come back");
    lab.pass(20).await;
    let left = ["ours-dies-slowly", "ours-waits", "theirs-dies", "theirs-dies-slowly", "theirs-waits"];
    assert_eq!(lab.names::<Pod>().await, left);
    lab.pass(300).await;
    assert_eq!(lab.names::<Pod>().await.len(), 4, "its grace is over");
}

/// A Pod that waits for a missing Node gets one event, which says what to do.
#[tokio::test(start_paused = true)]
async fn a_pod_without_any_node_says_so() {
    let mut lab = TestCluster::without_kubelet().await;
    let unbound = |name: &str, more: Value| {
        let mut pod = pod(name, "");
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    lab.create::<Pod>(unbound("waits", json!({}))).await;
    lab.create::<Pod>(unbound("gated", json!({"schedulingGates": [{"name": "a/b"}]}))).await;
    lab.create::<Pod>(unbound("theirs", json!({"schedulerName": "mine"}))).await;
    lab.pass(5).await;
    assert!(lab.events("waits").await.is_empty(), "it may be bound by hand");
    lab.pass(300).await;
    let waits = lab.get::<Pod>("waits").await;
    assert_eq!(condition(&waits, "PodScheduled"), "False Unschedulable");
    let words = "no nodes available to schedule pods: no node runs Pods here: start the server with `homeostat up --node`";
    assert_eq!(lab.events("waits").await, [format!("FailedScheduling: {words}")]);
    for name in ["gated", "theirs"] {
        assert!(lab.events(name).await.is_empty(), "{name}");
    }
    lab.add_node("here").await;
    say_of_node(&lab, "here", "False", "NodeStopped").await;
    lab.restart().await;
    let message = lab.get::<Pod>("waits").await["status"]["conditions"].to_string();
    assert!(message.contains("0/1 nodes are available: 1 node(s) were not ready"), "{message}");
    say_of_node(&lab, "here", "True", "NodeReady").await;
    lab.create::<Pod>(unbound("hopes", json!({}))).await;
    lab.pass(300).await;
    assert_ne!(condition(&lab.get::<Pod>("hopes").await, "PodScheduled"), "False Unschedulable");
}

/// The termination of a Pod is never confirmed if it has no Node, or its Node is switched off. Finalizers keep the
/// Pods, so that they can be checked.
#[tokio::test(start_paused = true)]
async fn dying_pods_without_a_kubelet_fail_and_go() {
    let lab = TestCluster::without_kubelet().await;
    lab.add_node("off").await;
    for (name, node) in [("unbound", json!(null)), ("lost", json!("off"))] {
        let mut pod = pod(name, "");
        pod["metadata"]["finalizers"] = json!(["test/keep"]);
        pod["spec"]["nodeName"] = node;
        lab.create::<Pod>(pod).await;
        lab.delete::<Pod>(name, &DeleteParams::default().grace_period(30)).await;
    }
    let phase = |pod: Value| pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        phase(lab.get::<Pod>("unbound").await),
        "Pending",
        "its finalizers see it unchanged for a while"
    );
    lab.pass(25).await;
    assert_eq!(phase(lab.get::<Pod>("unbound").await), "Failed");
    assert_eq!(phase(lab.get::<Pod>("lost").await), "Pending", "its Node may be at work");
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    Api::<Node>::all(lab.client()).patch("off", &PatchParams::default(), &patch).await.unwrap();
    lab.rest().await;
    let lost = lab.get::<Pod>("lost").await;
    assert_eq!(lost["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(phase(lost), "Failed");
}
