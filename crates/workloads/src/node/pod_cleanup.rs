//! Processes whose Pod is gone end at once: somebody deleted it by force, or while the node was away.
//!
//! A controller of the Node itself, woken by Pods that are about to go and by its own clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Control, Controller, Result, Target};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::{NodeOptions, NodeShared};

/// A Pod that vanished without a sign is noticed this soon.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) fn control(options: &NodeOptions) -> Control {
    let options = options.clone();
    Controller::<Node>::new()
        .named("node-sweep")
        .watches::<Pod, _>(move |pod| may_go(pod, &options).then(|| Target::from(options.name.as_str())))
        .reconcile(sweep)
}

/// Is this a Pod of ours that its next change may take away?
fn may_go(pod: &Pod, options: &NodeOptions) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let is_ours = node.is_some_and(|node| options.has_name(node));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    is_ours && (pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed")))
}

async fn sweep(node: Arc<Node>, cx: Context<Node>) -> Result {
    let ground = cx.state::<NodeShared>();
    if node.metadata.name.as_deref() != Some(&ground.options.name) {
        return Ok(Action::await_change());
    }
    let pods = cx.list::<Pod>()?;
    let known: HashSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    ground.tokens.keep(&known);
    ground.addresses.keep(&known);
    for (uid, owner) in ground.link.pods() {
        if !known.contains(uid.as_str()) {
            tracing::debug!(
                pod = owner.name,
                namespace = owner.namespace,
                "its Pod is gone: ending its processes"
            );
            ground.prober.forget(&uid);
            ground.link.forget(&uid)?;
        }
    }
    let with_files = ground.layout.pods_with_files();
    ground.link.keep_forgotten(&with_files);
    for uid in with_files {
        // A Pod that never ran, or whose records were lost, still may have files.
        if !known.contains(uid.as_str()) {
            ground.link.forget(&uid)?;
        }
    }
    Ok(Action::requeue(PERIOD))
}
