//! Handles PodDisruptionBudgets: computes how many of their Pods may be evicted now. The decisions are in `plan`; the
//! API server performs the evictions.
//!
//! **Invariant:** a status only overwrites the version it was computed from. The server spends the budget in the same
//! status, and a late write by this controller would undo that.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Kind, Result};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use self::plan::ExpectedPodsBasis;
use super::numbers::as_count;
use super::ownership::{controller_of, label_selector, matches_labels};
use super::partial_pod::{PartialPod, PodsInNamespace};

/// The number of replicas if an owner does not specify it.
const REPLICAS: i32 = 1;

pub(super) fn control() -> BuiltController {
    Controller::<PodDisruptionBudget>::new()
        .named("disruption-controller")
        .selects::<PartialPod, _>(pod_selector)
        .reads::<Deployment>()
        .reads::<ReplicaSet>()
        .reads::<StatefulSet>()
        .reads::<Job>()
        .reads::<ReplicationController>()
        .writes_status::<PodDisruptionBudget>()
        .reconcile(reconcile)
}

/// Returns the selector for a budget's Pods: an empty one selects all Pods in the namespace, a missing one none.
fn pod_selector(budget: &PodDisruptionBudget) -> Option<LabelSelector> {
    Some(label_selector(budget.spec.as_ref()?.selector.as_ref()?))
}

async fn reconcile(budget: Arc<PodDisruptionBudget>, cx: Context<PodDisruptionBudget>) -> Result {
    let pods = selected_pods(&cx, &budget)?;
    let expected = match plan::basis(&budget) {
        ExpectedPodsBasis::Nothing => 0,
        ExpectedPodsBasis::Pods => as_count(pods.len()),
        ExpectedPodsBasis::Scale => expected_by_owners(&cx, &pods)?,
    };
    let status = plan::status(&budget, &pods, expected, cx.now());
    if budget.status.as_ref() != Some(&status) {
        write_status(&cx, &budget, &status).await?;
    }
    Ok(plan::next_expiry(&status, cx.now()).map_or_else(Action::await_change, Action::requeue))
}

fn selected_pods(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
) -> Result<Vec<Arc<PartialPod>>, Error> {
    let Some(selector) = pod_selector(budget) else { return Ok(Vec::new()) };
    let mut pods = cx.indexed::<PartialPod, _>(&PodsInNamespace::of(&budget.metadata))?;
    pods.retain(|pod| matches_labels(&selector, &pod.metadata));
    Ok(pods)
}

/// Returns how many Pods their owners want in total. If any Pod has no owner with a size, returns the number of Pods.
fn expected_by_owners(cx: &Context<PodDisruptionBudget>, pods: &[Arc<PartialPod>]) -> Result<i32, Error> {
    let mut owners = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { return Ok(as_count(pods.len())) };
        owners.insert(owner.uid.as_str(), owner);
    }
    let mut sizes = BTreeMap::new();
    for owner in owners.into_values() {
        let Some((uid, size)) = size_wanted_by(cx, owner)? else { return Ok(as_count(pods.len())) };
        sizes.insert(uid, size);
    }
    Ok(sizes.into_values().fold(0, i32::saturating_add))
}

/// Returns the uid of the object that decides how many Pods there are, and the number it wants.
fn size_wanted_by(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
) -> Result<Option<(String, i32)>, Error> {
    let replicas = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "ReplicaSet") => {
            let Some(set) = referenced_object::<ReplicaSet>(cx, owner)? else { return Ok(None) };
            match controller_of(&set.metadata) {
                Some(above) => return size_wanted_by(cx, above),
                None => set.spec.as_ref().map(|spec| spec.replicas),
            }
        }
        ("apps/v1", "Deployment") => {
            referenced_object::<Deployment>(cx, owner)?.and_then(|one| Some(one.spec.as_ref()?.replicas))
        }
        ("apps/v1", "StatefulSet") => {
            referenced_object::<StatefulSet>(cx, owner)?.and_then(|one| Some(one.spec.as_ref()?.replicas))
        }
        ("v1", "ReplicationController") => referenced_object::<ReplicationController>(cx, owner)?
            .and_then(|one| Some(one.spec.as_ref()?.replicas)),
        ("batch/v1", "Job") => {
            referenced_object::<Job>(cx, owner)?.and_then(|one| Some(one.spec.as_ref()?.parallelism))
        }
        _ => None,
    };
    Ok(replicas.map(|replicas| (owner.uid.clone(), replicas.unwrap_or(REPLICAS))))
}

/// Returns the referenced object, not a different one with the same name.
fn referenced_object<T: Kind>(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
) -> Result<Option<Arc<T>>, Error> {
    Ok(cx.get::<T>(&owner.name)?.filter(|found| found.meta().uid.as_ref() == Some(&owner.uid)))
}

async fn write_status(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
    status: &PodDisruptionBudgetStatus,
) -> Result<(), Error> {
    let mut patch =
        json!({"metadata": {"resourceVersion": budget.metadata.resource_version}, "status": status});
    let before = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    for name in before.into_iter().flat_map(BTreeMap::keys) {
        if status.disrupted_pods.as_ref().is_none_or(|kept| !kept.contains_key(name)) {
            patch["status"]["disruptedPods"][name] = Value::Null;
        }
    }
    match cx.patch_status(budget, patch).await {
        // It is gone, or the budget was spent in the meantime: the corresponding event triggers the next reconcile.
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
        outcome => outcome.map(drop),
    }
}
