//! Reports Pods that are waiting for a Node when there is none: a condition and an event say so, and what to do about
//! it.
//!
//! Nothing is bound here. As soon as some Node is not known to be unready, its scheduler is responsible.
//! The event is sent when the condition changes, not at every reconcile.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Result, Severity};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::node_health::is_unready;
use super::partial_pod::PartialPod;

/// How long a new Pod is left alone: its creator may bind it by hand, and a client that uses only the API server finds
/// its Pod unchanged.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to recheck a Pod that a Node should accept: the Node may stop reporting first.
const AGAIN: Duration = Duration::from_secs(30);
/// The only scheduler known to be absent.
const SCHEDULER: &str = "default-scheduler";
const CONDITION: &str = "PodScheduled";
const REMEDY: &str = "no node runs Pods here: start the server with `homeostat up --node`";

pub(super) fn control() -> BuiltController {
    Controller::<PartialPod>::new().named("unscheduled-pods").reads::<core::Node>().reconcile(reconcile)
}

async fn reconcile(pod: Arc<PartialPod>, cx: Context<PartialPod>) -> Result {
    if !waits_for_node(&pod) {
        return Ok(Action::await_change());
    }
    let nodes = cx.list::<core::Node>()?;
    if nodes.iter().any(|node| !is_unready(node)) {
        return Ok(Action::requeue(AGAIN));
    }
    if let Some(rest) = patience_left(&pod, cx.now()) {
        return Ok(Action::requeue(rest));
    }
    let message = match nodes.len() {
        0 => format!("no nodes available to schedule pods: {REMEDY}"),
        count => format!("0/{count} nodes are available: {count} node(s) were not ready: {REMEDY}"),
    };
    let known = pod.status.conditions.iter().find(|one| one.r#type == CONDITION);
    if known.is_none_or(|one| one.status != "False" || one.message.as_deref() != Some(&message)) {
        write_condition(&cx, &pod, &message).await?;
        cx.event(Severity::Warning, "FailedScheduling", message);
    }
    Ok(Action::await_change())
}

/// Returns how much longer the Pod is left alone.
fn patience_left(pod: &PartialPod, now: Timestamp) -> Option<Duration> {
    let age = now.duration_since(pod.created()?).max(SignedDuration::ZERO).unsigned_abs();
    PATIENCE.checked_sub(age).filter(|rest| !rest.is_zero())
}

/// Returns whether the Pod is waiting for a Node and nothing else.
fn waits_for_node(pod: &PartialPod) -> bool {
    let scheduler = pod.spec.scheduler_name.as_deref().unwrap_or(SCHEDULER);
    pod.node().is_empty()
        && scheduler == SCHEDULER
        && pod.spec.scheduling_gates.is_empty()
        && !pod.is_dying()
        && !pod.is_finished()
}

async fn write_condition(
    cx: &Context<PartialPod>,
    pod: &PartialPod,
    message: &str,
) -> Result<(), kube::Error> {
    let condition = json!({"type": CONDITION, "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": cx.now().strftime("%FT%TZ").to_string()});
    let patch =
        Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    let pods: Api<core::Pod> = Api::namespaced(cx.client().clone(), cx.key().namespace());
    match pods.patch_status(pod.name(), &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome.map(drop),
    }
}
