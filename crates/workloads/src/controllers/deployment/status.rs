//! Computes a Deployment's status: counts over its ReplicaSets, and the conditions `Available`, `Progressing` and
//! `ReplicaFailure` with the reasons that `kubectl rollout status` and users expect. This module is pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};

use super::replica_sets::{ReplicaSets, name};
use super::rollout_sizes::RolloutLimits;
use crate::controllers::numbers::omit_zero;
use crate::controllers::time::whole_second;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";

/// The reason in `Progressing` when the rollout is complete.
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The conditions of a Deployment while its status is computed.
#[derive(Clone, Debug, Default)]
pub(super) struct DeploymentConditions(Vec<DeploymentCondition>);

impl DeploymentConditions {
    pub(super) fn of(status: Option<&DeploymentStatus>) -> Self {
        Self(status.and_then(|status| status.conditions.clone()).unwrap_or_default())
    }

    fn get(&self, r#type: &str) -> Option<&DeploymentCondition> {
        self.0.iter().find(|condition| condition.type_ == r#type)
    }

    /// Sets a condition; an unchanged condition keeps its times.
    fn set(&mut self, new: DeploymentCondition) {
        if self.get(&new.type_).is_none_or(|old| old.status != new.status || old.reason != new.reason) {
            self.renew(new);
        }
    }

    /// Sets a condition and its update time, even if it is otherwise unchanged.
    fn renew(&mut self, mut new: DeploymentCondition) {
        if let Some(old) = self.get(&new.type_)
            && old.status == new.status
        {
            new.last_transition_time.clone_from(&old.last_transition_time);
        }
        self.remove(&new.type_.clone());
        self.0.push(new);
    }

    fn remove(&mut self, r#type: &str) {
        self.0.retain(|condition| condition.type_ != r#type);
    }

    /// Records a pause or its end, which restarts the progress deadline.
    pub(super) fn note_pause(&mut self, spec: &DeploymentSpec, now: Timestamp) {
        let reason = self.get(PROGRESSING).and_then(|condition| condition.reason.clone());
        if deadline(spec).is_none() || reason.as_deref() == Some(TIMED_OUT) {
            return;
        }
        let (is_paused, was_paused) = (spec.paused == Some(true), reason.as_deref() == Some(PAUSED));
        if is_paused && !was_paused {
            self.set(condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now));
        } else if !is_paused && was_paused {
            self.set(condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now));
        }
    }

    pub(super) fn note_created(&mut self, spec: &DeploymentSpec, set: &str, now: Timestamp) {
        let message = format!("Created new replica set \"{set}\"");
        self.note_progress(spec, condition(PROGRESSING, "True", "NewReplicaSetCreated", &message, now));
    }

    pub(super) fn note_found(&mut self, spec: &DeploymentSpec, set: &str, now: Timestamp) {
        if self.get(PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{set}\"");
            self.note_progress(spec, condition(PROGRESSING, "True", "FoundNewReplicaSet", &message, now));
        }
    }

    pub(super) fn note_create_failed(&mut self, spec: &DeploymentSpec, message: &str, now: Timestamp) {
        self.note_progress(spec, condition(PROGRESSING, "False", "ReplicaSetCreateError", message, now));
    }

    fn note_progress(&mut self, spec: &DeploymentSpec, new: DeploymentCondition) {
        if deadline(spec).is_some() {
            self.set(new);
        }
    }
}

fn condition(r#type: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: r#type.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(whole_second(now)),
        last_update_time: Some(whole_second(now)),
    }
}

/// Returns how long a rollout may take without making progress; the largest number means no limit.
fn deadline(spec: &DeploymentSpec) -> Option<Duration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// The known state of a Deployment at the end of a reconcile.
pub(super) struct DeploymentState<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) spec: &'a DeploymentSpec,
    pub(super) limits: RolloutLimits,
    pub(super) sets: &'a ReplicaSets,
    pub(super) now: Timestamp,
}

impl DeploymentState<'_> {
    /// Returns the status with counts and availability, and leaves the progress unchanged.
    pub(super) fn status_with_counts(
        &self,
        mut conditions: DeploymentConditions,
        collisions: Option<i32>,
    ) -> DeploymentStatus {
        let available = self.sum(|status| status.available_replicas);
        let available_condition = if available >= self.limits.available_min() {
            condition(
                AVAILABLE,
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
                self.now,
            )
        } else {
            condition(
                AVAILABLE,
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
                self.now,
            )
        };
        conditions.set(available_condition);
        DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: omit_zero(self.sum(|status| Some(status.replicas))),
            updated_replicas: omit_zero(self.updated()),
            ready_replicas: omit_zero(self.sum(|status| status.ready_replicas)),
            available_replicas: omit_zero(available),
            unavailable_replicas: omit_zero((self.sets.total() - available).max(0)),
            terminating_replicas: Some(self.sum(|status| status.terminating_replicas)),
            collision_count: collisions,
            conditions: Some(conditions.0),
        }
    }

    /// Returns the status with counts, availability and progress.
    pub(super) fn status_with_progress(
        &self,
        conditions: DeploymentConditions,
        collisions: Option<i32>,
    ) -> DeploymentStatus {
        let mut status = self.status_with_counts(conditions, collisions);
        let mut conditions = DeploymentConditions(status.conditions.take().unwrap_or_default());
        match deadline(self.spec) {
            None => conditions.remove(PROGRESSING),
            Some(deadline) => self.update_progress(&status, &mut conditions, deadline),
        }
        match self.failure() {
            Some(failure) => conditions.set(failure),
            None => conditions.remove(FAILURE),
        }
        status.conditions = Some(conditions.0);
        status
    }

    fn update_progress(
        &self,
        new: &DeploymentStatus,
        conditions: &mut DeploymentConditions,
        deadline: Duration,
    ) {
        let known = conditions.get(PROGRESSING).cloned();
        let reason = known.as_ref().and_then(|condition| condition.reason.as_deref());
        if reason == Some(DONE) && new.replicas == new.updated_replicas {
            return;
        }
        let subject = match &self.sets.new {
            Some(set) => format!("ReplicaSet \"{}\"", name(set)),
            None => {
                format!("Deployment \"{}\"", self.deployment.metadata.name.as_deref().unwrap_or_default())
            }
        };
        if self.is_complete(new) {
            let message = format!("{subject} has successfully progressed.");
            conditions.set(condition(PROGRESSING, "True", DONE, &message, self.now));
        } else if self.has_moved(new) {
            let message = format!("{subject} is progressing.");
            conditions.renew(condition(PROGRESSING, "True", "ReplicaSetUpdated", &message, self.now));
        } else if is_overdue(known.as_ref(), deadline, self.now) {
            let message = format!("{subject} has timed out progressing.");
            conditions.set(condition(PROGRESSING, "False", TIMED_OUT, &message, self.now));
        }
    }

    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let desired = omit_zero(self.limits.desired);
        status.updated_replicas == desired
            && status.replicas == desired
            && status.available_replicas == desired
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// Returns whether anything has improved since the last status.
    fn has_moved(&self, new: &DeploymentStatus) -> bool {
        let old = self.deployment.status.clone().unwrap_or_default();
        let left_over = |status: &DeploymentStatus| {
            status.replicas.unwrap_or_default() - status.updated_replicas.unwrap_or_default()
        };
        new.updated_replicas > old.updated_replicas
            || left_over(new) < left_over(&old)
            || new.ready_replicas > old.ready_replicas
            || new.available_replicas > old.available_replicas
    }

    /// Returns how long to wait before checking the deadline again.
    pub(super) fn next_check(&self, status: &DeploymentStatus) -> Option<Duration> {
        let deadline = deadline(self.spec)?;
        let conditions = DeploymentConditions(status.conditions.clone().unwrap_or_default());
        let known = conditions.get(PROGRESSING)?;
        if self.is_complete(status) || known.reason.as_deref() == Some(TIMED_OUT) {
            return None;
        }
        let waited = waited(known, self.now)?;
        // Adds a second, because times are kept to the second.
        Some(deadline.saturating_sub(waited) + Duration::from_secs(1))
    }

    /// Returns the condition that says what keeps Pods from being created, as reported by the new set, or else by an
    /// old one.
    fn failure(&self) -> Option<DeploymentCondition> {
        let reported = |set: &Arc<ReplicaSet>| {
            let conditions = set.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|condition| condition.type_ == FAILURE).cloned()
        };
        let reported = self.sets.new.iter().chain(&self.sets.old).find_map(reported)?;
        Some(DeploymentCondition {
            type_: reported.type_,
            status: reported.status,
            reason: reported.reason,
            message: reported.message,
            last_update_time: reported.last_transition_time.clone(),
            last_transition_time: reported.last_transition_time,
        })
    }

    fn updated(&self) -> i32 {
        self.sets.new.as_ref().and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas)
    }

    fn sum(&self, field: impl Fn(&ReplicaSetStatus) -> Option<i32>) -> i32 {
        self.sets.all().filter_map(|set| set.status.as_ref().and_then(&field)).sum()
    }
}

fn is_overdue(known: Option<&DeploymentCondition>, deadline: Duration, now: Timestamp) -> bool {
    let Some(known) = known else { return false };
    match known.reason.as_deref() {
        Some(DONE) => false,
        Some(TIMED_OUT) => true,
        _ => waited(known, now).is_some_and(|waited| waited > deadline),
    }
}

/// Returns how long ago the condition last reported progress.
fn waited(known: &DeploymentCondition, now: Timestamp) -> Option<Duration> {
    let since = known.last_update_time.as_ref()?.0;
    Some(Duration::try_from(now.duration_since(since)).unwrap_or_default())
}
