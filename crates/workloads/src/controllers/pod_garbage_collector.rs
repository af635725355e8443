//! Deletes Pods that nothing runs anymore: Pods on Nodes that are gone, and Pods being deleted that have no Node, whose
//! Node reported that it stopped or is out of service, or whose Node of processes was silent for too long. Otherwise
//! they and their Namespaces would stay forever.
//!
//! As in Kubernetes, a Node counts as gone when it has been missing for a while and the server confirms it. Finished
//! Pods are counted in `finished_pods`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;

use super::node_health::{is_ready, is_stopped, time_until_lost};
use super::partial_pod::PartialPod;
use super::tolerations::taints_of;

/// How long to wait for a missing Node, which may be about to appear: the same as in Kubernetes.
const MISSING_NODE_WAIT: Duration = Duration::from_secs(40);

/// How long a Pod that is being deleted may be without a Node: whoever has a finalizer on it sees it unchanged until
/// then. Kubernetes' controller looks for such Pods this often.
const UNSCHEDULED_WAIT: Duration = Duration::from_secs(20);

/// The taint of a Node that an administrator knows to be switched off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The missing Nodes, and when each was first found missing.
type MissingNodes = Mutex<HashMap<String, Timestamp>>;

pub(super) fn control() -> BuiltController {
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
        return delete_unscheduled(&cx, &pod).await;
    }
    if let Some(node) = cx.get::<core::Node>(name)? {
        missing.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let left = time_until_release(&pod, &node, cx.now());
        if pod.is_dying() && is_out_of_service(&node) {
            fail_and_delete(&cx, &pod, None).await?;
        } else if left == Some(Duration::ZERO) {
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
        fail_and_delete(&cx, &pod, Some("PodGC: node no longer exists")).await?;
    }
    Ok(Action::await_change())
}

/// Deletes a Pod without a Node that has been dying for a while.
async fn delete_unscheduled(cx: &Context<PartialPod>, pod: &PartialPod) -> Result {
    let Some(deleted) = &pod.metadata.deletion_timestamp else { return Ok(Action::await_change()) };
    let since = Duration::try_from(cx.now().duration_since(deleted.0)).unwrap_or_default();
    let left = UNSCHEDULED_WAIT.saturating_sub(since);
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    fail_and_delete(cx, pod, None).await?;
    Ok(Action::await_change())
}

/// Returns whether the Node is not ready and an administrator has declared it switched off.
fn is_out_of_service(node: &core::Node) -> bool {
    !is_ready(node) && taints_of(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Returns the time until the Pod may be deleted without its Node's confirmation; `None` if that is not foreseeable.
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

fn pods(cx: &Context<PartialPod>, pod: &PartialPod) -> Api<core::Pod> {
    Api::namespaced(cx.client().clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
}

/// Marks the Pod as failed, for controllers that count failures, such as Job's, and deletes it immediately.
/// `disruption` is the message of the Pod's disruption condition, if it should have one.
async fn fail_and_delete(
    cx: &Context<PartialPod>,
    pod: &PartialPod,
    disruption: Option<&str>,
) -> Result<(), kube::Error> {
    if !pod.is_finished() {
        let generation = pod.metadata.generation;
        let mut status = json!({"phase": "Failed", "observedGeneration": generation});
        if let Some(message) = disruption {
            status["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": message, "observedGeneration": generation,
                "lastTransitionTime": cx.now().strftime("%FT%TZ").to_string()}]);
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        let patched = pods(cx, pod).patch_status(pod.name(), &PatchParams::default(), &patch).await;
        gone_is_fine(patched.map(drop))?;
    }
    delete_now(cx, pod).await
}

/// Deletes the Pod without a grace period.
pub(super) async fn delete_now(cx: &Context<PartialPod>, pod: &PartialPod) -> Result<(), kube::Error> {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    gone_is_fine(pods(cx, pod).delete(pod.name(), &params).await.map(drop))
}

/// Treats "gone" and "another Pod has this name now" as success.
fn gone_is_fine(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome,
    }
}
