//! Handles ReplicaSets and ReplicationControllers: as many Pods from a template as requested, no more and no fewer.
//!
//! A ReplicationController is handled as the ReplicaSet it is equivalent to (`replica_owner`). The cache shows our own
//! creations and deletions immediately, so counts are always right and nothing is created twice. Failures to create or
//! delete end up in the condition `ReplicaFailure` and are retried with backoff.

mod replica_owner;
mod status;

use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;

use self::replica_owner::ReplicaOwner;
use super::deletion_order::pods_to_delete;
use super::numbers::as_usize;
use super::ownership::{
    OrphansInNamespace, claim_objects, controller_of, label_selector, matches_labels, orphan_index_key,
};
use super::partial_pod::{PartialPod, PodsInNamespace, min_ready, next_available};
use super::pod_control;
use super::pod_template::generated_pod;

pub(super) fn controls() -> [BuiltController; 2] {
    [
        control::<ReplicaSet>("replicaset-controller"),
        control::<ReplicationController>("replication-controller"),
    ]
}

fn control<K: ReplicaOwner>(name: &str) -> BuiltController {
    Controller::<K>::new()
        .named(name)
        .owns::<PartialPod>()
        .selects::<PartialPod, _>(|owner: &K| {
            Some(label_selector(&owner.as_replica_set().spec.as_ref()?.selector))
        })
        .index::<PartialPod, OrphansInNamespace, _>(orphan_index_key)
        .writes_status::<K>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile<K: ReplicaOwner>(owner: Arc<K>, cx: Context<K>) -> Result {
    let set = owner.as_replica_set();
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = label_selector(&spec.selector);
    let pods = claim_objects::<_, PartialPod>(&cx, &selector, PartialPod::is_active).await?;
    let managed = adjust_pods(&cx, &set, pods).await;
    let pods = owned_pods(&cx, &selector)?;
    let min_ready = min_ready(spec.min_ready_seconds);
    let counts = status::PodCounts::of(&pods, spec.template.as_ref(), min_ready, cx.now());
    let mut status = set.status.clone().unwrap_or_default();
    counts.write_to(&mut status, spec.replicas.unwrap_or(1), managed.as_ref().err(), cx.now());
    cx.replace_status(&K::own_status(status));
    managed?;
    let wait = next_available(pods.iter().map(|pod| &**pod), min_ready, cx.now());
    Ok(wait.map_or(Action::await_change(), Action::requeue))
}

/// Returns the Pods that are ours after this reconcile's writes.
fn owned_pods<K: ReplicaOwner>(
    cx: &Context<K>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<PartialPod>>, Error> {
    let mut pods = cx.owned::<PartialPod>()?;
    pods.retain(|pod| matches_labels(selector, &pod.metadata));
    Ok(pods)
}

async fn adjust_pods<K: ReplicaOwner>(
    cx: &Context<K>,
    set: &ReplicaSet,
    mut pods: Vec<Arc<PartialPod>>,
) -> Result<(), Error> {
    pods.retain(|pod| pod.is_active());
    let spec = set.spec.as_ref().and_then(|spec| Some((spec.replicas, spec.template.as_ref()?)));
    let Some((replicas, template)) = spec else { return Ok(()) };
    let wanted = as_usize(replicas.unwrap_or(1));
    if pods.len() < wanted {
        let owner = set.metadata.name.as_deref().unwrap_or_default();
        return pod_control::create_pods(cx, wanted - pods.len(), |_| generated_pod(template, owner)).await;
    }
    let excess = (pods.len() - wanted).min(pod_control::BURST);
    if excess == 0 {
        return Ok(());
    }
    let related = pods_of_siblings(cx, set)?;
    pod_control::delete_pods(cx, &pods_to_delete(pods, &related, excess, cx.now())).await
}

/// Returns the Pods of all owners with the same controller: those of the same Deployment.
fn pods_of_siblings<K: ReplicaOwner>(
    cx: &Context<K>,
    set: &ReplicaSet,
) -> Result<Vec<Arc<PartialPod>>, Error> {
    let Some(controller) = controller_of(&set.metadata) else { return cx.owned::<PartialPod>() };
    let siblings = cx.list::<K>()?.into_iter().filter(|sibling| {
        controller_of(sibling.meta()).is_some_and(|reference| reference.uid == controller.uid)
    });
    let uids: Vec<String> = siblings.filter_map(|sibling| sibling.meta().uid.clone()).collect();
    let mut pods = cx.indexed::<PartialPod, _>(&PodsInNamespace::of(&set.metadata))?;
    pods.retain(|pod| controller_of(&pod.metadata).is_some_and(|reference| uids.contains(&reference.uid)));
    Ok(pods)
}
