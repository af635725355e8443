//! DaemonSets: a Pod on every Node, as Nodes come and go.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::lab::{Lab, template};

async fn add_node(lab: &Lab, name: &str) {
    let node =
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"disk": "ssd"}}})).unwrap();
    Api::<Node>::all(lab.client.clone()).create(&PostParams::default(), &node).await.unwrap();
    lab.rest().await;
}

/// `node image` of the Pods.
async fn placed(lab: &Lab) -> Vec<String> {
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
    let lab = Lab::new().await;
    add_node(&lab, "a").await;
    lab.create::<DaemonSet>(set("ready")).await;
    assert_eq!(placed(&lab).await, ["a ready"]);
    add_node(&lab, "b").await;
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
    Api::<Node>::all(lab.client.clone()).delete("a", &DeleteParams::default()).await.unwrap();
    lab.rest().await;
    assert_eq!(placed(&lab).await, ["b ready2"]);
    let elsewhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "tape"}}}}});
    lab.patch::<DaemonSet>("agent", elsewhere).await;
    assert!(placed(&lab).await.is_empty());
}
