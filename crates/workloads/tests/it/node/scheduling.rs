//! Tests the Node, and which Pods are bound to it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::test_cluster::{TestCluster, condition, eventually};

#[tokio::test]
async fn the_node_is_there_and_alive() {
    let mut lab = TestCluster::new().await;
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
    let lab = TestCluster::new().await;
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

/// Pods on other nodes and other schedulers are ignored.
#[tokio::test]
async fn pods_of_others_are_left_alone() {
    let lab = TestCluster::new().await;
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

/// One machine can be several Nodes: Pods are spread over them, and each reports its own status.
#[tokio::test]
async fn a_machine_can_be_several_nodes() {
    let lab = TestCluster::with(|options| options.count(3)).await;
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
    let words = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector. \
        no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    lab.until_event("nowhere", "FailedScheduling", words).await;
}

/// Pods that are created together must count each other, although none of them is visible on its Node yet.
#[tokio::test]
async fn pods_that_refuse_each_other_get_a_node_each() {
    let lab = TestCluster::with(|options| options.count(2)).await;
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
    let apart = json!([{"labelSelector": {"matchLabels": {"app": "alone"}}, "topologyKey": "kubernetes.io/hostname"}]);
    let spec = json!({"containers": [container], "affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": apart}}});
    let names = ["one", "two", "three"];
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), "default");
    let created = names.map(|name| {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "alone"}}, "spec": spec});
        let (pods, pod) = (pods.clone(), serde_json::from_value(pod).unwrap());
        async move { pods.create(&PostParams::default(), &pod).await.unwrap() }
    });
    futures::future::join_all(created).await;
    let refused = eventually(
        "one Pod finds no Node",
        || async {
            let all = pods.list(&ListParams::default()).await.unwrap().items;
            let refused: Vec<_> =
                all.iter().filter(|pod| condition(pod, "PodScheduled") == "False").cloned().collect();
            let bound = all.iter().filter(|pod| condition(pod, "PodScheduled") == "True").count();
            (refused.len() == 1 && bound == 2).then(|| refused.into_iter().next().unwrap())
        },
        || async { format!("{:?}", pods.list(&ListParams::default()).await) },
    )
    .await;
    let conditions = refused.status.unwrap().conditions.unwrap();
    let message = conditions.iter().find(|one| one.type_ == "PodScheduled").unwrap().message.clone().unwrap();
    let words = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. \
        no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    assert_eq!(message, words);
}

/// A taint keeps away Pods that do not tolerate it.
#[tokio::test]
async fn a_taint_keeps_pods_away() {
    let lab = TestCluster::new().await;
    lab.shell("first", "true", "Never").await;
    lab.until_phase("first", "Succeeded").await;
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let taint = json!({"spec": {"taints": [{"key": "own", "value": "me", "effect": "NoSchedule"}]}});
    nodes.patch("local", &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    let container = json!({"name": "main", "image": "none", "command": ["true"]});
    lab.pod("stranger", json!({"containers": [container.clone()]})).await;
    lab.until_event(
        "stranger",
        "FailedScheduling",
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). ",
    )
    .await;
    let tolerations = json!([{"key": "own", "operator": "Exists"}]);
    lab.pod(
        "owner",
        json!({"restartPolicy": "Never", "tolerations": tolerations, "containers": [container]}),
    )
    .await;
    lab.until_phase("owner", "Succeeded").await;
}

/// The status names the generation it is about, as a whole and in every condition.
#[tokio::test]
async fn the_status_names_the_generation_it_is_about() {
    let lab = TestCluster::new().await;
    lab.shell("one", "exec sleep 1000", "Always").await;
    let observed = |pod: &Pod| pod.status.as_ref().and_then(|status| status.observed_generation);
    let pod = lab.until("one", "observed", |pod| observed(pod) == Some(1)).await;
    assert_eq!(pod.metadata.generation, Some(1));
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 5000}}));
    pods.patch("one", &PatchParams::default(), &patch).await.unwrap();
    let pod = lab.until("one", "observed again", |pod| observed(pod) == Some(2)).await;
    let conditions = pod.status.unwrap().conditions.unwrap();
    for condition in conditions.iter().filter(|one| one.type_ != "PodReadyToStartContainers") {
        assert_eq!(condition.observed_generation, Some(2), "{}", condition.type_);
    }
}
