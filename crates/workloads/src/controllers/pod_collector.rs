//! Deletes Pods that nothing runs any more: Pods of Nodes that are gone, and Pods being deleted on a Node that reported
//! its stop or on a process node that was silent for too long. Otherwise they, and their Namespaces, would stay
//! forever.
//!
//! A Node counts as gone when it was missing for a while and the server confirms it, as in Kubernetes. Finished Pods
//! are neither counted nor deleted here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_runtime::{Action, Context, Control, Controller, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;

use super::node_health::{is_stopped, time_until_lost};
use super::partial_pod::PartialPod;

/// How long to wait for a missing Node, which may be about to come: Kubernetes' own choice.
const MISSING_NODE_WAIT: Duration = Duration::from_secs(40);

/// The missing Nodes, and since when each has been missing.
type MissingNodes = Mutex<HashMap<String, Timestamp>>;

pub(super) fn control() -> Control {
    let missing = Arc::new(MissingNodes::default());
    Controller::<PartialPod>::new()
        .named("pod-garbage-collector")
        .references::<core::Node, _>(|pod: &PartialPod| {
            pod.spec.node_name.clone().filter(|name| !name.is_empty())
        })
        .to_the_end()
        .reconcile(move |pod, cx| reconcile(pod, cx, Arc::clone(&missing)))
}

async fn reconcile(pod: Arc<PartialPod>, cx: Context<PartialPod>, missing: Arc<MissingNodes>) -> Result {
    let name = pod.node();
    if name.is_empty() {
        return Ok(Action::await_change());
    }
    if let Some(node) = cx.get::<core::Node>(name)? {
        missing.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let left = time_until_release(&pod, &node, cx.now());
        if left == Some(Duration::ZERO) {
            delete_now(&cx, &pod).await?;
        }
        return Ok(left.filter(|left| !left.is_zero()).map_or_else(Action::await_change, Action::requeue));
    }
    let left = wait_left(&missing, name, cx.now());
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    let nodes: Api<core::Node> = Api::all(cx.client().clone());
    if nodes.get_opt(name).await?.is_none() {
        mark_failed(&cx, &pod).await?;
        delete_now(&cx, &pod).await?;
    }
    Ok(Action::await_change())
}

/// Returns how long it is until the Pod may go without its Node's confirmation; `None` while that is not in sight.
fn time_until_release(pod: &PartialPod, node: &core::Node, now: Timestamp) -> Option<Duration> {
    let deadline = pod.metadata.deletion_timestamp.as_ref()?.0;
    if is_stopped(node) {
        return Some(Duration::ZERO);
    }
    let grace = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
    Some(time_until_lost(node, now)?.max(grace))
}

/// Returns how much longer to wait for a Node.
fn wait_left(missing: &MissingNodes, node: &str, now: Timestamp) -> Duration {
    let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
    let since = *missing.entry(node.to_owned()).or_insert(now);
    MISSING_NODE_WAIT.saturating_sub(Duration::try_from(now.duration_since(since)).unwrap_or_default())
}

fn pods(cx: &Context<PartialPod>) -> Api<core::Pod> {
    Api::namespaced(cx.client().clone(), cx.key().namespace())
}

/// Marks the Pod as failed, for controllers that count failures, such as Job's.
async fn mark_failed(cx: &Context<PartialPod>, pod: &PartialPod) -> Result<(), kube::Error> {
    if pod.is_finished() {
        return Ok(());
    }
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists", "lastTransitionTime": cx.now().strftime("%FT%TZ").to_string()});
    let patch =
        json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed", "conditions": [condition]}});
    let patched = pods(cx).patch_status(pod.name(), &PatchParams::default(), &Patch::Strategic(patch)).await;
    gone_is_fine(patched.map(drop))
}

async fn delete_now(cx: &Context<PartialPod>, pod: &PartialPod) -> Result<(), kube::Error> {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    gone_is_fine(pods(cx).delete(pod.name(), &params).await.map(drop))
}

/// Turns "gone" and "another Pod has this name now" into success.
fn gone_is_fine(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome,
    }
}
