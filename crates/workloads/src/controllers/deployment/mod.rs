//! Handles Deployments: one ReplicaSet per template; the newest one grows while the others shrink.
//!
//! A reconcile takes one step: it sizes the sets and writes the status. The effects of the step (Pods become available)
//! show up as changes to the ReplicaSets' status and trigger the next step. The decisions are in `rollout_sizes`,
//! `replica_sets` and `status`, which perform no I/O.

mod replica_sets;
mod rollout_sizes;
mod status;

use std::sync::Arc;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use self::replica_sets::{REVISION, ReplicaSets, name, replicas, size_annotations};
use self::rollout_sizes::{RolloutLimits, new_size, old_sizes, proportional_sizes};
use self::status::{DeploymentConditions, DeploymentState};
use super::ownership::{OrphansInNamespace, claim_objects, controller_of, label_selector, orphan_index_key};
use super::partial_pod::{PartialPod, PodsInNamespace};
use super::pod_control::error_message;
use super::pod_template::short_hash;

/// The maximum length of an object's name.
const NAME_LENGTH_MAX: usize = 253;

pub(super) fn control() -> BuiltController {
    Controller::<Deployment>::new()
        .named("deployment-controller")
        .owns::<ReplicaSet>()
        .selects::<ReplicaSet, _>(|deployment: &Deployment| {
            Some(label_selector(&deployment.spec.as_ref()?.selector))
        })
        .index::<ReplicaSet, OrphansInNamespace, _>(orphan_index_key)
        .reads::<PartialPod>()
        .writes_status::<Deployment>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(deployment: Arc<Deployment>, cx: Context<Deployment>) -> Result {
    let Some(spec) = &deployment.spec else { return Ok(Action::await_change()) };
    let all = claim_objects::<_, ReplicaSet>(&cx, &label_selector(&spec.selector), |_| true).await?;
    let old_status = deployment.status.as_ref();
    let mut rollout = Rollout {
        cx: &cx,
        deployment: &deployment,
        spec,
        limits: RolloutLimits::of(spec),
        sets: ReplicaSets::of(all, spec),
        conditions: DeploymentConditions::of(old_status),
        collisions: old_status.and_then(|status| status.collision_count),
    };
    rollout.conditions.note_pause(spec, cx.now());
    let step = rollout.step().await;
    let status = match &step {
        Ok(RolloutStep::Scaled) => {
            rollout.state().status_with_counts(rollout.conditions.clone(), rollout.collisions)
        }
        Ok(RolloutStep::Rolled) | Err(_) => {
            rollout.state().status_with_progress(rollout.conditions.clone(), rollout.collisions)
        }
    };
    cx.replace_status(&status);
    step?;
    rollout.delete_old_sets(&status).await?;
    Ok(rollout.state().next_check(&status).map_or(Action::await_change(), Action::requeue))
}

/// The step that a reconcile took.
enum RolloutStep {
    /// The Deployment is paused or was scaled, which says nothing about progress.
    Scaled,
    Rolled,
}

struct Rollout<'a> {
    cx: &'a Context<Deployment>,
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    limits: RolloutLimits,
    sets: ReplicaSets,
    conditions: DeploymentConditions,
    collisions: Option<i32>,
}

impl Rollout<'_> {
    async fn step(&mut self) -> Result<RolloutStep, Error> {
        if self.spec.paused == Some(true) || self.sets.were_scaled(self.limits.desired) {
            self.update_new_set().await?;
            self.scale().await?;
            return Ok(RolloutStep::Scaled);
        }
        if self.limits.is_rolling {
            self.roll_out().await?;
        } else {
            self.recreate().await?;
        }
        Ok(RolloutStep::Rolled)
    }

    /// Grows the new set if there is room; otherwise shrinks the old ones if availability allows.
    async fn roll_out(&mut self) -> Result<(), Error> {
        let new = self.obtain_new_set().await?;
        let wanted = new_size(self.limits, self.sets.total(), replicas(&new));
        if wanted != replicas(&new) {
            return self.resize(&new, wanted).await;
        }
        let old = self.sets.old.clone();
        let sizes: Vec<_> = old.iter().map(|set| replica_sets::size_of_set(set)).collect();
        for (set, wanted) in old.iter().zip(old_sizes(self.limits, &sizes, replica_sets::size_of_set(&new))) {
            if wanted != replicas(set) {
                self.resize(set, wanted).await?;
            }
        }
        Ok(())
    }

    /// Deletes every old Pod before it creates the first new one.
    async fn recreate(&mut self) -> Result<(), Error> {
        self.update_new_set().await?;
        let old: Vec<_> = self.sets.old.iter().filter(|set| replicas(set) > 0).cloned().collect();
        for set in &old {
            self.resize(set, 0).await?;
        }
        if !old.is_empty() || self.has_old_pods()? {
            return Ok(());
        }
        let new = self.obtain_new_set().await?;
        if replicas(&new) != self.limits.desired {
            self.resize(&new, self.limits.desired).await?;
        }
        Ok(())
    }

    fn has_old_pods(&self) -> Result<bool, Error> {
        let is_counted =
            |set: &Arc<ReplicaSet>| set.status.as_ref().is_some_and(|status| status.replicas > 0);
        if self.sets.old.iter().any(is_counted) {
            return Ok(true);
        }
        let is_old = |pod: &Arc<PartialPod>| {
            let owner = controller_of(&pod.metadata).map(|reference| reference.uid.as_str());
            self.sets.old.iter().any(|set| owner.is_some() && set.metadata.uid.as_deref() == owner)
        };
        let pods = self.cx.indexed::<PartialPod, _>(&PodsInNamespace::of(&self.deployment.metadata))?;
        Ok(pods.iter().any(|pod| is_old(pod) && !pod.is_finished()))
    }

    /// Resizes the sets in proportion.
    async fn scale(&mut self) -> Result<(), Error> {
        let desired = self.limits.desired;
        if let Some(only) = self.sets.active_or_latest().cloned() {
            return self.resize(&only, desired).await;
        }
        if replica_sets::is_saturated(self.sets.new.as_ref(), desired) {
            let active: Vec<_> = self.sets.old.iter().filter(|set| replicas(set) > 0).cloned().collect();
            for set in &active {
                self.resize(set, 0).await?;
            }
        } else if self.limits.is_rolling {
            let is_growing = desired > 0 && self.limits.total_max() > self.sets.total();
            let active = self.sets.by_size(is_growing);
            let shares: Vec<_> = active.iter().map(|set| replica_sets::share_of_set(set)).collect();
            let known =
                self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
            for (set, wanted) in active.iter().zip(proportional_sizes(self.limits, &shares, known)) {
                self.resize(set, wanted).await?;
            }
        }
        Ok(())
    }

    /// Resizes a set and records on it the number of replicas it was sized for.
    async fn resize(&mut self, set: &Arc<ReplicaSet>, wanted: i32) -> Result<(), Error> {
        let before = replicas(set);
        let notes = size_annotations(self.limits);
        let is_noted =
            notes.iter().all(|(key, value)| replica_sets::number_annotation(set, key) == value.parse().ok());
        if before == wanted && is_noted {
            return Ok(());
        }
        let notes: serde_json::Map<String, Value> =
            notes.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let patch = json!({"metadata": {"annotations": notes}, "spec": {"replicas": wanted}});
        let resized = self.cx.patch(&**set, patch).await?;
        self.sets.replace(&resized);
        if before != wanted {
            let direction = if before < wanted { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {before} to {wanted}", name(set));
            self.cx.event(Severity::Normal, "ScalingReplicaSet", message);
        }
        Ok(())
    }

    /// Updates the new set's revision, annotations and `minReadySeconds`, if there is a new set.
    async fn update_new_set(&mut self) -> Result<(), Error> {
        let Some(new) = self.sets.new.clone() else { return Ok(()) };
        let missing =
            replica_sets::missing_annotations(self.deployment, &new.metadata, self.sets.next_revision());
        let min_ready = self.spec.min_ready_seconds.unwrap_or_default();
        let known = new.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
        let new = if missing.is_empty() && min_ready == known {
            new
        } else {
            let patch = json!({"metadata": {"annotations": missing}, "spec": {"minReadySeconds": min_ready}});
            let updated = self.cx.patch(&*new, patch).await?;
            self.sets.replace(&updated);
            updated
        };
        self.conditions.note_found(self.spec, name(&new), self.cx.now());
        self.note_revision(replica_sets::revision(&new)).await
    }

    /// Returns the new set, and creates it if it is missing.
    async fn obtain_new_set(&mut self) -> Result<Arc<ReplicaSet>, Error> {
        self.update_new_set().await?;
        if let Some(new) = &self.sets.new {
            return Ok(new.clone());
        }
        let revision = self.sets.next_revision();
        let desired = self.new_set(revision);
        let set_name = desired.metadata.name.clone().unwrap_or_default();
        let created = self.cx.create::<_, ReplicaSet>(desired).await;
        let created = match created {
            Err(error) if error.is_conflict() => return Err(self.note_collision(&set_name, error)),
            Err(error) => return Err(self.note_create_failure(&set_name, error)),
            Ok(created) => created,
        };
        self.conditions.note_created(self.spec, &set_name, self.cx.now());
        let size = replicas(&created);
        if size > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {size}");
            self.cx.event(Severity::Normal, "ScalingReplicaSet", message);
        }
        self.sets.new = Some(created.clone());
        self.note_revision(revision).await?;
        Ok(created)
    }

    fn new_set(&self, revision: i64) -> ReplicaSet {
        let mut template = self.spec.template.clone();
        let hash = short_hash(&template, self.collisions);
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(replica_sets::HASH.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(replica_sets::HASH.to_owned(), hash.clone());
        let mut annotations =
            replica_sets::missing_annotations(self.deployment, &ObjectMeta::default(), revision);
        annotations.extend(size_annotations(self.limits).map(|(key, value)| (key.to_owned(), value)));
        let owner = self.deployment.metadata.name.as_deref().unwrap_or_default();
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(set_name(owner, &hash)),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(new_size(self.limits, self.sets.total(), 0)),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }

    /// Records that the name belongs to a set that is not ours or not in the cache yet, so that the next attempt uses a
    /// different name.
    fn note_collision(&mut self, set_name: &str, error: Error) -> Error {
        let is_ours = self.cx.get::<ReplicaSet>(set_name).ok().flatten().is_some_and(|set| {
            super::ownership::is_controlled_by(&set.metadata, &self.deployment.metadata)
                && replica_sets::has_template(&set, &self.spec.template)
        });
        if !is_ours {
            self.collisions = Some(self.collisions.unwrap_or_default() + 1);
        }
        error
    }

    fn note_create_failure(&mut self, set_name: &str, error: Error) -> Error {
        let message = format!("Failed to create new replica set \"{set_name}\": {}", error_message(&error));
        self.conditions.note_create_failed(self.spec, &message, self.cx.now());
        self.cx.event(Severity::Warning, "ReplicaSetCreateError", message);
        error
    }

    /// Records the newest set's revision on the Deployment. It is written through the status, because writing an
    /// annotation in any other way would raise the generation.
    async fn note_revision(&self, revision: i64) -> Result<(), Error> {
        let annotations = self.deployment.metadata.annotations.as_ref();
        let revision = revision.to_string();
        if annotations.and_then(|all| all.get(REVISION)) == Some(&revision) {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
        self.cx.patch_status(self.deployment, patch).await.map(drop)
    }

    /// Deletes the sets beyond the history limit once the rollout is complete.
    async fn delete_old_sets(&self, status: &DeploymentStatus) -> Result<(), Error> {
        let limit = self.spec.revision_history_limit.filter(|limit| *limit != i32::MAX);
        let Some(limit) = limit else { return Ok(()) };
        if self.spec.paused != Some(true) && !self.state().is_complete(status) {
            return Ok(());
        }
        for set in replica_sets::surplus_sets(&self.sets.old, limit) {
            self.cx.delete(&*set).await?;
        }
        Ok(())
    }

    fn state(&self) -> DeploymentState<'_> {
        DeploymentState {
            deployment: self.deployment,
            spec: self.spec,
            limits: self.limits,
            sets: &self.sets,
            now: self.cx.now(),
        }
    }
}

/// Returns the Deployment's name and the template's hash, shortened to fit.
fn set_name(deployment: &str, hash: &str) -> String {
    let room = NAME_LENGTH_MAX - 1 - hash.len();
    let kept = deployment.get(..room).unwrap_or(deployment);
    format!("{kept}-{hash}")
}
