//! DaemonSets: one Pod on every Node that qualifies. The Pods are made for their Node by name, so no scheduler is asked.
//! The decisions are in `plan`. Not handled: `maxSurge` and affinity.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, Context, Control, Controller, Error, Result};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::json;

use self::plan::{DaemonSetState, is_for};
use super::number::size;
use super::ownership::{claim, selector};
use super::partial_pod::{Pod, next_available};
use super::pod_control;
use super::revisions::{self, NewestRevision, REVISION, name, superfluous};
use super::template::generated;

/// Revisions kept when the set does not say.
const HISTORY: i32 = 10;

pub(super) fn control() -> Control {
    Controller::<DaemonSet>::new()
        .named("daemonset-controller")
        .owns::<Pod>()
        .owns::<ControllerRevision>()
        .selects::<Pod, _>(|set: &DaemonSet| Some(selector(&set.spec.as_ref()?.selector)))
        .selects::<Node, _>(|set: &DaemonSet| Some(node_selector(set.spec.as_ref()?)))
        .writes_status::<DaemonSet>()
        .reconcile(reconcile)
}

async fn reconcile(set: Arc<DaemonSet>, cx: Context<DaemonSet>) -> Result {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = selector(&spec.selector);
    let pods = claim::<_, Pod>(&cx, &selector, |_| true).await?;
    let mut history = claim::<_, ControllerRevision>(&cx, &selector, |_| true).await?;
    history.sort_by(|left, right| (left.revision, name(left)).cmp(&(right.revision, name(right))));
    let newest = newest(&cx, &set, spec, &history).await?;
    let hash =
        newest.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)).cloned().unwrap_or_default();
    let nodes = nodes(&cx, spec)?;
    let view = DaemonSetState { spec, nodes: nodes.clone(), pods: &pods, hash: &hash, now: cx.now() };
    let stepped = step(&cx, &set, spec, &view).await;
    let pods = cx.owned::<Pod>()?;
    let view = DaemonSetState { pods: &pods, nodes, ..view };
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    cx.replace_status(&view.status(set.metadata.generation, collisions));
    stepped?;
    clean_up(&cx, spec, &history, &pods, name(&newest)).await?;
    let wait = next_available(pods.iter().map(|pod| &**pod), view.min_ready(), cx.now());
    Ok(wait.map_or(Action::await_change(), Action::requeue))
}

fn pod_spec(spec: &DaemonSetSpec) -> PodSpec {
    spec.template.spec.clone().unwrap_or_default()
}

/// The Nodes whose changes may matter.
fn node_selector(spec: &DaemonSetSpec) -> LabelSelector {
    let match_labels = pod_spec(spec).node_selector;
    selector(&meta::LabelSelector { match_labels, match_expressions: None })
}

fn nodes(cx: &Context<DaemonSet>, spec: &DaemonSetSpec) -> Result<BTreeSet<String>, Error> {
    let pod = pod_spec(spec);
    let nodes = cx.list::<Node>()?.into_iter().filter(|node| is_for(&pod, node));
    Ok(nodes.filter_map(|node| node.metadata.name.clone()).collect())
}

/// The revision with the set's template, made if it is missing.
async fn newest(
    cx: &Context<DaemonSet>,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    history: &[Arc<ControllerRevision>],
) -> Result<Arc<ControllerRevision>, Error> {
    let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default();
    match revisions::newest(&set.metadata, &spec.template, history, collisions) {
        NewestRevision::Known(revision) => Ok(revision),
        NewestRevision::Renumber(revision, number) => cx.patch(&*revision, json!({"revision": number})).await,
        NewestRevision::Missing(revision) => {
            let created = cx.create::<_, ControllerRevision>(*revision).await;
            if matches!(&created, Err(error) if error.is_conflict()) {
                // The name is taken: another one next time.
                cx.patch_status(set, json!({"status": {"collisionCount": collisions + 1}})).await?;
            }
            created
        }
    }
}

async fn step(
    cx: &Context<DaemonSet>,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    view: &DaemonSetState<'_>,
) -> Result<(), Error> {
    let step = view.step();
    let owner = set.metadata.name.as_deref().unwrap_or_default();
    let make = |number: usize| {
        let mut pod = generated(&spec.template, owner);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION.to_owned(), view.hash.to_owned());
        pod.spec.get_or_insert_default().node_name = step.create.get(number).cloned();
        pod
    };
    pod_control::create(cx, step.create.len(), make).await?;
    pod_control::delete(cx, &step.delete).await
}

/// Removes the revisions beyond the history limit.
async fn clean_up(
    cx: &Context<DaemonSet>,
    spec: &DaemonSetSpec,
    history: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
    newest: &str,
) -> Result<(), Error> {
    let hashes: Vec<&str> = pods.iter().filter_map(|pod| pod.label(REVISION)).collect();
    let is_used = |revision: &ControllerRevision| {
        let hash = revision.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION));
        hash.is_some_and(|hash| hashes.contains(&hash.as_str()))
    };
    let mut live: Vec<&str> =
        history.iter().filter(|revision| is_used(revision)).map(|revision| name(revision)).collect();
    live.push(newest);
    for revision in superfluous(history, &live, size(spec.revision_history_limit.unwrap_or(HISTORY))) {
        cx.delete(&*revision).await?;
    }
    Ok(())
}
