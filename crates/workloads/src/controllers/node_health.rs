//! Marks Nodes that have stopped reporting, and their Pods.
//!
//! A Node whose lease is not renewed becomes `Unknown`, and the Pods of a Node that is not ready become not ready,
//! because their state is unknown. (`pod_collector` removes Pods on our own nodes that are being deleted, after a
//! while.) **Invariant:** only Nodes that have a lease, or that report themselves as not ready, are marked. Pods are
//! not evicted: there is no other node for them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use homeostat_runtime::{Action, BuiltController, Context, Controller, ObjectName, Result, Severity};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::partial_pod::PartialPod;

/// The namespace in which Nodes renew their leases.
const LEASES: &str = "kube-node-lease";
/// How long a lease is valid if it does not specify it, the same as in Kubernetes.
const LEASE: Duration = Duration::from_secs(40);
/// The reason with which our own node reports an orderly stop, with nothing left running.
const STOPPED: &str = "NodeStopped";

/// The label of Nodes whose Pods are processes run by a server. The processes exit soon after their server, and a
/// restarted server stops those that have no Pod.
const PROCESSES: &str = "homeostat.dev/processes";
/// How long until a silent Node with this label counts as lost: ten times as long as its processes outlive their
/// server.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// The index of Pods by the Node they are bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PodsOnNode(String);

pub(super) fn control() -> BuiltController {
    Controller::<Node>::new()
        .named("node-lifecycle-controller")
        .references::<Lease, _>(|node: &Node| node.metadata.name.as_deref().map(lease_of))
        .index::<PartialPod, PodsOnNode, _>(|pod: &PartialPod| pod.spec.node_name.clone().map(PodsOnNode))
        .reconcile(reconcile)
}

fn lease_of(node: &str) -> ObjectName {
    ObjectName { namespace: Some(LEASES.to_owned()), name: node.to_owned() }
}

async fn reconcile(node: Arc<Node>, cx: Context<Node>) -> Result {
    let name = cx.key().name().to_owned();
    let left =
        cx.get::<Lease>(lease_of(&name))?.and_then(|lease| lease_time_left(lease.spec.as_ref()?, cx.now()));
    if left == Some(Duration::ZERO) && is_ready(&node) {
        mark_unknown(&cx, &name).await?;
        cx.event(Severity::Normal, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
        // The change to the Node itself triggers another reconcile, which marks the Pods.
        return Ok(Action::await_change());
    }
    if is_unready(&node) {
        let pods = cx.indexed::<PartialPod, _>(&PodsOnNode(name))?;
        let unready = pods.iter().filter(|pod| pod.is_ready()).map(|pod| mark_pod_unready(&cx, pod));
        join_all(unready).await.into_iter().collect::<Result<Vec<()>, kube::Error>>()?;
    }
    Ok(left.filter(|left| !left.is_zero()).map_or_else(Action::await_change, Action::requeue))
}

/// Returns how much longer the lease is valid; `None` if it was never renewed.
fn lease_time_left(lease: &LeaseSpec, now: jiff::Timestamp) -> Option<Duration> {
    let renewed = lease.renew_time.as_ref()?.0;
    let asked = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let good_for = asked.map_or(LEASE, Duration::from_secs);
    Some(good_for.saturating_sub(Duration::try_from(now.duration_since(renewed)).unwrap_or_default()))
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|one| one.type_ == "Ready")
}

/// Returns whether the Node's condition says that it is ready.
pub(super) fn is_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|ready| ready.status == "True")
}

/// Returns whether the Node's condition says that it is not ready. A Node without the condition may be ready.
pub(super) fn is_unready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|ready| ready.status != "True")
}

/// Returns whether the Node has reported that nothing runs there anymore.
pub(super) fn is_stopped(node: &Node) -> bool {
    ready_condition(node)
        .is_some_and(|ready| ready.status == "False" && ready.reason.as_deref() == Some(STOPPED))
}

/// Returns the time until a silent Node counts as lost, with everything that ran there. Returns `None` if it is not
/// silent, or if that cannot be known: Pods run by other kubelets continue without us.
pub(super) fn time_until_lost(node: &Node, now: jiff::Timestamp) -> Option<Duration> {
    let labels = node.metadata.labels.as_ref()?;
    let since =
        ready_condition(node).filter(|ready| ready.status == "Unknown")?.last_transition_time.as_ref()?.0;
    let silent = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    labels.contains_key(PROCESSES).then(|| LOST_AFTER.saturating_sub(silent))
}

async fn mark_unknown(cx: &Context<Node>, name: &str) -> Result<(), kube::Error> {
    let condition = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.", "lastTransitionTime": timestamp_text(cx)});
    let nodes: Api<Node> = Api::all(cx.client().clone());
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    nodes.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}

/// Marks the Pod as not ready.
async fn mark_pod_unready(cx: &Context<Node>, pod: &PartialPod) -> Result<(), kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let pods: Api<core::Pod> = Api::namespaced(cx.client().clone(), namespace);
    let condition = json!({"type": "Ready", "status": "False", "reason": "NodeLost",
        "message": "the Node is not ready, so the state of its Pods is unknown", "lastTransitionTime": timestamp_text(cx)});
    let patch =
        Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    match pods.patch_status(pod.name(), &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn timestamp_text(cx: &Context<Node>) -> String {
    cx.now().strftime("%FT%TZ").to_string()
}
