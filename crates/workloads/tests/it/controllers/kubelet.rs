//! Provides a kubelet that runs nothing: it reports for each Pod what the image of its first container specifies.
//!
//! `ready` runs and is ready, `slow` runs but is never ready, `stuck` stays pending, `succeed` and `fail` exit at once,
//! `wait` runs until a test stops it.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// The Node that it reports for.
pub(crate) const NODE: &str = "here";

/// Follows the Pods of all namespaces until it is dropped.
pub(crate) async fn run(client: Client) {
    let all: Api<Pod> = Api::all(client.clone());
    // A watch ends from time to time, and its history may be gone, in which case it starts with a list.
    loop {
        let listed = all.list(&ListParams::default()).await.unwrap();
        for pod in &listed.items {
            tend(&client, pod).await;
        }
        let revision = listed.metadata.resource_version.unwrap();
        let mut events = all.watch(&WatchParams::default(), &revision).await.unwrap().boxed();
        while let Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod))) =
            events.try_next().await
        {
            tend(&client, &pod).await;
        }
    }
}

async fn tend(client: &Client, pod: &Pod) {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
    let name = pod.name_any();
    let spec = pod.spec.as_ref().unwrap();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if pod.metadata.deletion_timestamp.is_some() {
        if phase != "Succeeded" && phase != "Failed" {
            say(&api, &name, json!({"phase": "Failed"})).await;
        }
        let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
    } else if spec.node_name.is_none() {
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}});
        let parameters = PostParams::default();
        let _ = api.create_subresource::<_, Value>("binding", &name, &parameters, &binding).await;
    } else if phase == "Pending" {
        let now = api.get_opt(&name).await.unwrap();
        if now.is_some_and(|now| now.metadata.resource_version == pod.metadata.resource_version) {
            start(&api, pod, &name).await;
        }
    }
}

async fn start(api: &Api<Pod>, pod: &Pod, name: &str) {
    let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap_or_default();
    let address = format!("10.0.0.{}", name.bytes().map(u32::from).sum::<u32>() % 250 + 1);
    let running = |is_ready: bool| {
        let ready = if is_ready { "True" } else { "False" };
        json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
               "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": pod_time(pod)}]})
    };
    match image {
        "ready" | "ready2" => say(api, name, running(true)).await,
        "slow" | "wait" => say(api, name, running(false)).await,
        "succeed" => say(api, name, json!({"phase": "Succeeded"})).await,
        "fail" => say(api, name, json!({"phase": "Failed"})).await,
        _ => {}
    }
}

fn pod_time(pod: &Pod) -> Value {
    json!(pod.metadata.creation_timestamp)
}

/// Writes a status.
pub(crate) async fn say(api: &Api<Pod>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    // The Pod may be gone in the meantime.
    let _ = api.patch_status(name, &PatchParams::default(), &patch).await;
}
