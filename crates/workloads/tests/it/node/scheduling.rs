//! The Node and who is bound to it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::lab::{Lab, condition, eventually};

#[tokio::test]
async fn the_node_is_there_and_alive() {
    let mut lab = Lab::new().await;
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let ready = |node: &Node| {
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().find(|one| one.type_ == "Ready").map(|one| one.status.clone()).unwrap_or_default()
    };
    let node = eventually(
        "the node is ready",
        || async { nodes.get_opt("local").await.unwrap().filter(|node| ready(node) == "True") },
        || async { format!("{:?}", nodes.get_opt("local").await) },
    )
    .await;
    assert_eq!(node.metadata.labels.unwrap()["kubernetes.io/hostname"], "local");
    let leases: Api<Lease> = Api::namespaced(lab.client.clone(), "kube-node-lease");
    let lease = eventually(
        "the lease",
        || async { leases.get_opt("local").await.unwrap() },
        || async { "none".to_owned() },
    )
    .await;
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("local"));
    lab.stop_node().await;
    assert_eq!(ready(&nodes.get("local").await.unwrap()), "False", "stopped is not ready");
}

#[tokio::test]
async fn a_pod_that_does_not_fit_is_told_why_and_bound_when_it_does() {
    let lab = Lab::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["true"]});
    lab.pod(
        "picky",
        json!({"restartPolicy": "Never", "nodeSelector": {"disk": "fast"}, "containers": [container]}),
    )
    .await;
    lab.until_event("picky", "FailedScheduling", "didn't match Pod's node affinity/selector").await;
    let pod = lab.until("picky", "unschedulable", |pod| condition(pod, "PodScheduled") == "False").await;
    assert!(pod.spec.unwrap().node_name.is_none());
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "fast"}}}));
    nodes.patch("local", &PatchParams::default(), &label).await.unwrap();
    let at_once = std::time::Duration::from_secs(6);
    tokio::time::timeout(at_once, lab.until_phase("picky", "Succeeded"))
        .await
        .expect("the Node's change is seen");
}

/// Pods of other nodes and other schedulers are nobody's business here.
#[tokio::test]
async fn pods_of_others_are_left_alone() {
    let lab = Lab::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["true"]});
    lab.pod("elsewhere", json!({"nodeName": "other", "containers": [container.clone()]})).await;
    lab.pod("theirs", json!({"schedulerName": "mine", "containers": [container]})).await;
    lab.shell("ours", "true", "Never").await;
    lab.until_phase("ours", "Succeeded").await;
    for name in ["elsewhere", "theirs"] {
        let status = lab.get(name).await.unwrap().status.unwrap();
        assert_eq!((status.phase.as_deref(), status.container_statuses), (Some("Pending"), None), "{name}");
    }
}

/// One machine can be several Nodes: Pods are spread over them, and each has its own word.
#[tokio::test]
async fn a_machine_can_be_several_nodes() {
    let lab = Lab::with(|options| options.count(3)).await;
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes.patch("local-3", &PatchParams::default(), &Patch::Merge(cordon)).await.unwrap();
    let mut bound = Vec::new();
    for name in ["one", "two", "three", "four"] {
        lab.shell(name, "exec sleep 1000", "Always").await;
        bound.push(lab.until_ready(name).await.spec.unwrap().node_name.unwrap());
    }
    bound.sort_unstable();
    assert_eq!(bound, ["local", "local", "local-2", "local-2"]);
    let container = json!({"name": "main", "image": "none", "command": ["true"]});
    lab.pod("nowhere", json!({"nodeSelector": {"no": "such"}, "containers": [container]})).await;
    let words = "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.";
    lab.until_event("nowhere", "FailedScheduling", words).await;
}
