//! Handles DaemonSets: one Pod on every Node that qualifies. Each Pod names its Node, so no scheduler is needed. The
//! decisions are in `plan`. `maxSurge` and affinity are not supported.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use self::plan::{DaemonSetState, should_run_on};
use super::numbers::as_usize;
use super::ownership::{claim_objects, label_selector};
use super::partial_pod::{PartialPod, next_available};
use super::pod_control;
use super::pod_template::generated_pod;
use super::revisions::{self, REVISION, revision_name, surplus_revisions};

/// How many revisions to keep if the set does not specify it.
const HISTORY: i32 = 10;

pub(super) fn control() -> BuiltController {
    Controller::<DaemonSet>::new()
        .named("daemonset-controller")
        .owns::<PartialPod>()
        .owns::<ControllerRevision>()
        .selects::<PartialPod, _>(|set: &DaemonSet| Some(label_selector(&set.spec.as_ref()?.selector)))
        .selects::<Node, _>(|set: &DaemonSet| Some(node_selector(set.spec.as_ref()?)))
        .writes_status::<DaemonSet>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(set: Arc<DaemonSet>, cx: Context<DaemonSet>) -> Result {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = label_selector(&spec.selector);
    let pods = claim_objects::<_, PartialPod>(&cx, &selector, |_| true).await?;
    let mut history = claim_objects::<_, ControllerRevision>(&cx, &selector, |_| true).await?;
    history.sort_by(|left, right| {
        (left.revision, revision_name(left)).cmp(&(right.revision, revision_name(right)))
    });
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let newest =
        revisions::ensure_newest(&cx, &*set, &spec.template, &history, collisions.unwrap_or_default())
            .await?;
    let hash =
        newest.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)).cloned().unwrap_or_default();
    let nodes = qualifying_nodes(&cx, spec)?;
    let state = DaemonSetState { spec, nodes: nodes.clone(), pods: &pods, hash: &hash, now: cx.now() };
    let stepped = apply_changes(&cx, &set, spec, &state).await;
    let pods = cx.owned::<PartialPod>()?;
    let state = DaemonSetState { pods: &pods, nodes, ..state };
    cx.replace_status(&state.status(set.metadata.generation, collisions));
    stepped?;
    delete_old_revisions(&cx, spec, &history, &pods, revision_name(&newest)).await?;
    let wait = next_available(pods.iter().map(|pod| &**pod), state.min_ready(), cx.now());
    Ok(wait.map_or(Action::await_change(), Action::requeue))
}

fn pod_spec(spec: &DaemonSetSpec) -> PodSpec {
    spec.template.spec.clone().unwrap_or_default()
}

/// Returns a selector for the Nodes whose changes may affect the set.
fn node_selector(spec: &DaemonSetSpec) -> LabelSelector {
    let match_labels = pod_spec(spec).node_selector;
    label_selector(&meta::LabelSelector { match_labels, match_expressions: None })
}

fn qualifying_nodes(cx: &Context<DaemonSet>, spec: &DaemonSetSpec) -> Result<BTreeSet<String>, Error> {
    let pod = pod_spec(spec);
    let nodes = cx.list::<Node>()?.into_iter().filter(|node| should_run_on(&pod, node));
    Ok(nodes.filter_map(|node| node.metadata.name.clone()).collect())
}

async fn apply_changes(
    cx: &Context<DaemonSet>,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    state: &DaemonSetState<'_>,
) -> Result<(), Error> {
    let step = state.pod_changes();
    let owner = set.metadata.name.as_deref().unwrap_or_default();
    let make = |number: usize| {
        let mut pod = generated_pod(&spec.template, owner);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION.to_owned(), state.hash.to_owned());
        pod.spec.get_or_insert_default().node_name = step.create.get(number).cloned();
        pod
    };
    pod_control::create_pods(cx, step.create.len(), make).await?;
    pod_control::delete_pods(cx, &step.delete).await
}

/// Deletes the revisions beyond the history limit.
async fn delete_old_revisions(
    cx: &Context<DaemonSet>,
    spec: &DaemonSetSpec,
    history: &[Arc<ControllerRevision>],
    pods: &[Arc<PartialPod>],
    newest: &str,
) -> Result<(), Error> {
    let hashes: Vec<&str> = pods.iter().filter_map(|pod| pod.label(REVISION)).collect();
    let is_used = |revision: &ControllerRevision| {
        let hash = revision.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION));
        hash.is_some_and(|hash| hashes.contains(&hash.as_str()))
    };
    let mut live: Vec<&str> =
        history.iter().filter(|revision| is_used(revision)).map(|revision| revision_name(revision)).collect();
    live.push(newest);
    for revision in
        surplus_revisions(history, &live, as_usize(spec.revision_history_limit.unwrap_or(HISTORY)))
    {
        cx.delete(&*revision).await?;
    }
    Ok(())
}
