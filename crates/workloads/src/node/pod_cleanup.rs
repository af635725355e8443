//! Stops processes whose Pod is gone because it was force-deleted, or deleted while the node was down.
//!
//! It is a controller for the Node itself, triggered by Pods that are about to be deleted and by a timer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, ObjectName, Result};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::pod::is_finished;
use super::{NodeOptions, NodeShared};

/// How soon the node notices a Pod that vanished without warning.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) fn control(options: &NodeOptions) -> BuiltController {
    let options = options.clone();
    Controller::<Node>::new()
        .needs_state::<NodeShared>()
        .named("node-sweep")
        .watches::<Pod, _>(move |pod| may_go(pod, &options).then(|| ObjectName::from(options.name.as_str())))
        .reconcile(clean_up)
}

/// Returns whether this is one of our Pods and may be gone after its next change.
fn may_go(pod: &Pod, options: &NodeOptions) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let is_ours = node.is_some_and(|node| options.has_name(node));
    is_ours && (pod.metadata.deletion_timestamp.is_some() || is_finished(pod))
}

async fn clean_up(node: Arc<Node>, cx: Context<Node>) -> Result {
    let shared = cx.state::<NodeShared>();
    if node.metadata.name.as_deref() != Some(&shared.options.name) {
        return Ok(Action::await_change());
    }
    let pods = cx.list::<Pod>()?;
    let known: HashSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    shared.tokens.retain_pods(&known);
    shared.addresses.retain_pods(&known);
    for (uid, owner) in shared.supervisor.pods_with_runs() {
        if !known.contains(uid.as_str()) {
            tracing::debug!(
                pod = owner.name,
                namespace = owner.namespace,
                "its Pod is gone: ending its processes"
            );
            shared.prober.forget(&uid);
            shared.supervisor.forget_pod(&uid)?;
        }
    }
    let with_files = shared.layout.pods_with_files();
    shared.supervisor.retain_forgotten(&with_files);
    for uid in with_files {
        // A Pod that never ran, or whose records were lost, may still have files.
        if !known.contains(uid.as_str()) {
            shared.supervisor.forget_pod(&uid)?;
        }
    }
    Ok(Action::requeue(PERIOD))
}
