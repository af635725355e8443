//! ReplicaSets: as many Pods of a template as asked for, no more and no fewer.
//!
//! The cache shows our own creations and deletions at once, so counting is always right and nothing is created twice.
//! Failures to create or delete end up in the condition `ReplicaFailure` and are retried with backoff.

mod status;

use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, Context, Control, Controller, Error, Result};
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::deletion_order::victims;
use super::number::size;
use super::ownership::{OrphansInNamespace, claim, controller_of, matches, orphan, selector};
use super::partial_pod::{Pod, PodsInNamespace, min_ready, next_available};
use super::pod_control;
use super::template::generated;

pub(super) fn control() -> Control {
    Controller::<ReplicaSet>::new()
        .named("replicaset-controller")
        .owns::<Pod>()
        .selects::<Pod, _>(|set: &ReplicaSet| Some(selector(&set.spec.as_ref()?.selector)))
        .index::<Pod, OrphansInNamespace, _>(orphan)
        .writes_status::<ReplicaSet>()
        .reconcile(reconcile)
}

async fn reconcile(set: Arc<ReplicaSet>, cx: Context<ReplicaSet>) -> Result {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = selector(&spec.selector);
    let pods = claim::<_, Pod>(&cx, &selector, Pod::is_active).await?;
    let managed = manage(&cx, &set, pods).await;
    let pods = ours(&cx, &selector)?;
    let min_ready = min_ready(spec.min_ready_seconds);
    let counts = status::PodCounts::of(&pods, spec.template.as_ref(), min_ready, cx.now());
    let mut status = set.status.clone().unwrap_or_default();
    counts.write(&mut status, spec.replicas.unwrap_or(1), managed.as_ref().err(), cx.now());
    cx.replace_status(&status);
    managed?;
    let wait = next_available(pods.iter().map(|pod| &**pod), min_ready, cx.now());
    Ok(wait.map_or(Action::await_change(), Action::requeue))
}

/// What is ours after this reconcile's writes.
fn ours(cx: &Context<ReplicaSet>, selector: &LabelSelector) -> Result<Vec<Arc<Pod>>, Error> {
    let mut pods = cx.owned::<Pod>()?;
    pods.retain(|pod| matches(selector, &pod.metadata));
    Ok(pods)
}

async fn manage(cx: &Context<ReplicaSet>, set: &ReplicaSet, mut pods: Vec<Arc<Pod>>) -> Result<(), Error> {
    pods.retain(|pod| pod.is_active());
    let spec = set.spec.as_ref().and_then(|spec| Some((spec.replicas, spec.template.as_ref()?)));
    let Some((replicas, template)) = spec else { return Ok(()) };
    let wanted = size(replicas.unwrap_or(1));
    if pods.len() < wanted {
        let owner = set.metadata.name.as_deref().unwrap_or_default();
        return pod_control::create(cx, wanted - pods.len(), |_| generated(template, owner)).await;
    }
    let excess = (pods.len() - wanted).min(pod_control::BURST);
    if excess == 0 {
        return Ok(());
    }
    let related = related(cx, set)?;
    pod_control::delete(cx, &victims(pods, &related, excess, cx.now())).await
}

/// The Pods of all ReplicaSets with our controller: those of the same Deployment.
fn related(cx: &Context<ReplicaSet>, set: &ReplicaSet) -> Result<Vec<Arc<Pod>>, Error> {
    let Some(controller) = controller_of(&set.metadata) else { return cx.owned::<Pod>() };
    let siblings = cx.list::<ReplicaSet>()?.into_iter().filter(|sibling| {
        controller_of(&sibling.metadata).is_some_and(|reference| reference.uid == controller.uid)
    });
    let uids: Vec<String> = siblings.filter_map(|sibling| sibling.metadata.uid.clone()).collect();
    let mut pods = cx.indexed::<Pod, _>(&PodsInNamespace::of(&set.metadata))?;
    pods.retain(|pod| controller_of(&pod.metadata).is_some_and(|reference| uids.contains(&reference.uid)));
    Ok(pods)
}
