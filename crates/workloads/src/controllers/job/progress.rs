//! Tracks a Job's progress: which Pods count, how the Job finishes, and what its status says. This module is pure.
//!
//! A Pod carries a finalizer until it is counted. Counting takes three steps, and a crash may follow each: the uid is
//! written into the status as uncounted, the finalizer is removed, and the uid is turned into a number. **Invariant:**
//! a Pod is counted once. A uid in the status whose Pod no longer has a finalizer is only turned into a number, and a
//! Pod without the finalizer is never recorded again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};

use super::backoff::{backoff_after, elapsed, finished};
use super::indexes::CompletionIndexes;
use super::pod_failure_policy::{FailureConsequence, consequence_of_failure, satisfied_rule};
use crate::controllers::numbers::{as_count, omit_zero};
use crate::controllers::partial_pod::PartialPod;
use crate::controllers::time::whole_second;

/// The finalizer that holds a Pod until it is counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label that hold a Pod's completion index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The annotation that counts the earlier failures of a Pod's index.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// How a Job finishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobOutcome {
    Complete { reason: String, message: String },
    Failed { reason: String, message: String },
}

impl JobOutcome {
    fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self::Failed { reason: reason.to_owned(), message: message.into() }
    }

    pub(super) fn completed() -> Self {
        let message = "Reached expected number of succeeded pods".to_owned();
        Self::Complete { reason: "CompletionsReached".to_owned(), message }
    }
}

pub(super) fn is_tracked(pod: &PartialPod) -> bool {
    pod.metadata.finalizers.as_deref().unwrap_or_default().iter().any(|finalizer| finalizer == FINALIZER)
}

pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns the Pod's completion index.
pub(super) fn index_of(pod: &PartialPod) -> Option<i32> {
    pod.annotation(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// The counts of one reconcile.
pub(super) struct JobProgress<'a> {
    pub(super) spec: &'a JobSpec,
    /// The Job's Pods as they were at the beginning of the reconcile.
    pub(super) pods: &'a [Arc<PartialPod>],
    pub(super) status: JobStatus,
    pub(super) now: Timestamp,
    completed: CompletionIndexes,
    /// The indexes that failed permanently, if the Job limits failures per index.
    given_up: CompletionIndexes,
}

impl<'a> JobProgress<'a> {
    pub(super) fn new(job: &Job, spec: &'a JobSpec, pods: &'a [Arc<PartialPod>], now: Timestamp) -> Self {
        let mut status = job.status.clone().unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        if status.start_time.is_none() && !is_suspended(spec) {
            status.start_time = Some(whole_second(now));
        }
        let (completed, given_up) = (CompletionIndexes::default(), CompletionIndexes::default());
        let mut progress = Self { spec, pods, status, now, completed, given_up };
        let tracked = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.uid().to_owned()).collect();
        progress.count_released(&tracked);
        progress.completed = progress.completed_indexes();
        progress.given_up = progress.failed_indexes();
        progress
    }

    /// Turns the uids of Pods that are no longer tracked into numbers.
    pub(super) fn count_released(&mut self, tracked: &BTreeSet<String>) {
        let uncounted = self.status.uncounted_terminated_pods.get_or_insert_default();
        let counted = |uids: &mut Option<Vec<String>>| {
            let all = uids.take().unwrap_or_default();
            let (still, through): (Vec<_>, Vec<_>) = all.into_iter().partition(|uid| tracked.contains(uid));
            *uids = Some(still).filter(|still| !still.is_empty());
            as_count(through.len())
        };
        let (succeeded, failed) = (counted(&mut uncounted.succeeded), counted(&mut uncounted.failed));
        self.status.succeeded = omit_zero(self.status.succeeded.unwrap_or_default() + succeeded);
        self.status.failed = omit_zero(self.status.failed.unwrap_or_default() + failed);
    }

    fn completed_indexes(&self) -> CompletionIndexes {
        if !is_indexed(self.spec) {
            return CompletionIndexes::default();
        }
        let bound = self.spec.completions.unwrap_or_default();
        let known = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut indexes = CompletionIndexes::parse(known, bound);
        let fresh = self.pods.iter().filter(|pod| pod.is_succeeded() && is_tracked(pod));
        for index in fresh.filter_map(|pod| self.valid_index(pod)) {
            indexes.add(index, index);
        }
        indexes
    }

    fn failed_indexes(&self) -> CompletionIndexes {
        let Some(limit) = self.spec.backoff_limit_per_index else { return CompletionIndexes::default() };
        let known = self.status.failed_indexes.as_deref().unwrap_or_default();
        let mut indexes = CompletionIndexes::parse(known, self.spec.completions.unwrap_or_default());
        for pod in self.pods.iter().filter(|pod| is_tracked(pod) && self.is_failed(pod)) {
            let is_over = match consequence_of_failure(self.spec, pod) {
                FailureConsequence::FailIndex => true,
                FailureConsequence::Ignore => false,
                FailureConsequence::Count | FailureConsequence::FailJob(_) => failures(pod) >= limit,
            };
            if let Some(index) = self.valid_index(pod).filter(|_| is_over) {
                indexes.add(index, index);
            }
        }
        indexes
    }

    /// Returns the last failed Pod of an index that must run again. The Pod records how often the index has failed, so
    /// it is kept until its successor exists.
    pub(super) fn last_failed_pod(&self, index: i32) -> Option<&'a Arc<PartialPod>> {
        self.spec.backoff_limit_per_index?;
        let of_index = || self.pods.iter().filter(move |pod| index_of(pod) == Some(index));
        let is_settled = self.completed.contains(index) || self.given_up.contains(index);
        if is_settled || of_index().any(|pod| pod.is_active()) {
            return None;
        }
        let failed = of_index().filter(|pod| is_tracked(pod) && self.is_failed(pod));
        failed.max_by_key(|pod| (failures(pod), finished(pod)))
    }

    /// Returns how long to wait before running an index again.
    pub(super) fn index_backoff(&self, index: i32) -> Duration {
        let Some(pod) = self.last_failed_pod(index) else { return Duration::ZERO };
        let doublings = u32::try_from(failures(pod)).unwrap_or_default();
        let since = finished(pod).unwrap_or(self.now);
        backoff_after(doublings).saturating_sub(elapsed(since, self.now))
    }

    /// Returns how often an index failed before the Pod that is now created for it.
    pub(super) fn index_failures(&self, index: i32) -> i32 {
        let Some(pod) = self.last_failed_pod(index) else { return 0 };
        failures(pod) + i32::from(consequence_of_failure(self.spec, pod) != FailureConsequence::Ignore)
    }

    fn valid_index(&self, pod: &PartialPod) -> Option<i32> {
        index_of(pod).filter(|index| *index < self.spec.completions.unwrap_or_default())
    }

    /// Returns whether the Pod counts for this Job; in an indexed Job, a Pod without a valid index does not.
    fn is_ours(&self, pod: &PartialPod) -> bool {
        !is_indexed(self.spec) || self.valid_index(pod).is_some()
    }

    /// Returns whether the Pod counts as failed for the Job.
    fn is_failed(&self, pod: &PartialPod) -> bool {
        pod.is_failed() || (!self.replaces_failed_only() && pod.is_dying() && !pod.is_succeeded())
    }

    fn replaces_failed_only(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    fn uncounted(&self) -> UncountedTerminatedPods {
        self.status.uncounted_terminated_pods.clone().unwrap_or_default()
    }

    pub(super) fn active(&self) -> impl Iterator<Item = &'a Arc<PartialPod>> + use<'a> {
        self.pods.iter().filter(|pod| pod.is_active())
    }

    pub(super) fn succeeded(&self) -> i32 {
        if is_indexed(self.spec) {
            return self.completed.len();
        }
        let uncounted = self.uncounted().succeeded.unwrap_or_default();
        let fresh = self.pods.iter().filter(|pod| {
            is_tracked(pod) && pod.is_succeeded() && !uncounted.iter().any(|uid| uid == pod.uid())
        });
        self.status.succeeded.unwrap_or_default() + as_count(fresh.count() + uncounted.len())
    }

    pub(super) fn failed(&self) -> i32 {
        let uncounted = self.uncounted().failed.unwrap_or_default();
        let fresh = self.pods.iter().filter(|pod| {
            is_tracked(pod)
                && self.is_ours(pod)
                && self.is_failed(pod)
                && !uncounted.iter().any(|uid| uid == pod.uid())
                && consequence_of_failure(self.spec, pod) != FailureConsequence::Ignore
        });
        self.status.failed.unwrap_or_default() + as_count(fresh.count() + uncounted.len())
    }

    /// Returns how the Job finishes, if that is decided.
    pub(super) fn outcome(&self) -> Option<JobOutcome> {
        if let Some(met) = self.condition("SuccessCriteriaMet") {
            return Some(JobOutcome::Complete {
                reason: text_or_empty(met.reason.as_deref()),
                message: text_or_empty(met.message.as_deref()),
            });
        }
        if let Some(target) = self.condition("FailureTarget") {
            return Some(JobOutcome::Failed {
                reason: text_or_empty(target.reason.as_deref()),
                message: text_or_empty(target.message.as_deref()),
            });
        }
        let policy = self.pods.iter().filter(|pod| self.is_failed(pod)).find_map(|pod| {
            match consequence_of_failure(self.spec, pod) {
                FailureConsequence::FailJob(message) => Some(JobOutcome::failed("PodFailurePolicy", message)),
                _ => None,
            }
        });
        policy.or_else(|| self.limit_exceeded()).or_else(|| self.indexes_failed()).or_else(|| {
            let completions = self.spec.completions.unwrap_or_default();
            let message = satisfied_rule(self.spec.success_policy.as_ref(), &self.completed, completions)?;
            Some(JobOutcome::Complete { reason: "SuccessPolicy".to_owned(), message })
        })
    }

    fn limit_exceeded(&self) -> Option<JobOutcome> {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.failed() > limit || self.restarts_exceed(limit) {
            let message = "Job has reached the specified backoff limit";
            return Some(JobOutcome::failed("BackoffLimitExceeded", message));
        }
        if self.deadline_in()?.is_zero() {
            let message = "Job was active longer than specified deadline";
            return Some(JobOutcome::failed("DeadlineExceeded", message));
        }
        None
    }

    /// Returns the failure if too many indexes have failed permanently, or no others are left.
    fn indexes_failed(&self) -> Option<JobOutcome> {
        let given_up = self.given_up.len();
        if self.spec.max_failed_indexes.is_some_and(|limit| given_up > limit) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(JobOutcome::failed("MaxFailedIndexesExceeded", message));
        }
        let is_over = given_up + self.completed.len() >= self.spec.completions.unwrap_or_default();
        (given_up > 0 && is_over).then(|| JobOutcome::failed("FailedIndexes", "Job has failed indexes"))
    }

    /// Returns whether Pods that restart in place have restarted too often.
    fn restarts_exceed(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
        let statuses = running
            .flat_map(|pod| pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses));
        let restarts: i32 = statuses.map(|status| status.restart_count).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// Returns how long the Job may still be active; `None` without a deadline.
    pub(super) fn deadline_in(&self) -> Option<Duration> {
        let seconds = self.spec.active_deadline_seconds.filter(|_| !is_suspended(self.spec))?;
        let start = self.status.start_time.as_ref()?.0;
        let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        Some(allowed.saturating_sub(elapsed(start, self.now)))
    }

    fn condition(&self, r#type: &str) -> Option<&JobCondition> {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == r#type && condition.status == "True")
    }

    /// Returns how many Pods should be active.
    pub(super) fn wanted(&self) -> usize {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            None if self.succeeded() > 0 => return self.active().count(),
            None => parallelism,
            Some(completions) => parallelism.min(completions - self.succeeded() - self.given_up.len()),
        };
        usize::try_from(wanted).unwrap_or_default()
    }

    /// Returns how many Pods must be gone before they are replaced.
    pub(super) fn terminating_to_await(&self) -> usize {
        if !self.replaces_failed_only() {
            return 0;
        }
        self.pods.iter().filter(|pod| pod.is_terminating()).count()
    }

    /// Returns the indexes for the next Pods.
    pub(super) fn next_indexes(&self, count: usize) -> Vec<i32> {
        let mut taken = self.completed.clone();
        taken.join(&self.given_up);
        let blocking = self
            .pods
            .iter()
            .filter(|pod| pod.is_active() || (self.replaces_failed_only() && pod.is_terminating()));
        for index in blocking.filter_map(|pod| index_of(pod)) {
            taken.add(index, index);
        }
        taken.missing(count, self.spec.completions.unwrap_or_default())
    }

    /// Returns how long to wait before the next Pod is created: longer with every failure since the last success. Pods
    /// being deleted that are counted or ignored, and Pods whose node was stopped, say nothing about the next one.
    pub(super) fn backoff(&self) -> Duration {
        let successes = self.pods.iter().filter(|pod| pod.is_succeeded());
        let last_success = successes.filter_map(|pod| finished(pod)).max();
        let failures: Vec<Timestamp> = self
            .pods
            .iter()
            .filter(|pod| self.is_failed(pod) && (is_tracked(pod) || !pod.is_dying()))
            .filter(|pod| !pod.is_disrupted_by_node())
            .filter_map(|pod| finished(pod))
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let Some(last) = failures.iter().max() else { return Duration::ZERO };
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX);
        backoff_after(doublings).saturating_sub(elapsed(*last, self.now))
    }

    /// Records the Pods that have finished; returns those whose finalizer may be removed.
    pub(super) fn note_finished_pods(&mut self, outcome: Option<&JobOutcome>) -> Vec<Arc<PartialPod>> {
        let is_failure = matches!(outcome, Some(JobOutcome::Failed { .. }));
        let mut uncounted = self.uncounted();
        let mut through = Vec::new();
        for pod in self.pods.iter().filter(|pod| is_tracked(pod)) {
            let is_failed = self.is_failed(pod);
            let is_held = outcome.is_none() && self.is_last_failed_pod(pod);
            if (outcome.is_none() && !pod.is_succeeded() && !is_failed) || is_held {
                continue;
            }
            through.push(pod.clone());
            if pod.is_succeeded() {
                if !is_indexed(self.spec) {
                    note_uid(&mut uncounted.succeeded, pod);
                }
            } else if (is_failed || is_failure)
                && self.is_ours(pod)
                && consequence_of_failure(self.spec, pod) != FailureConsequence::Ignore
            {
                note_uid(&mut uncounted.failed, pod);
            }
        }
        self.status.uncounted_terminated_pods = Some(uncounted);
        if is_indexed(self.spec) {
            self.status.completed_indexes = Some(self.completed.to_string()).filter(|text| !text.is_empty());
            self.status.succeeded = omit_zero(self.completed.len());
        }
        if self.spec.backoff_limit_per_index.is_some() {
            self.status.failed_indexes = Some(self.given_up.to_string());
        }
        through
    }

    fn is_last_failed_pod(&self, pod: &PartialPod) -> bool {
        let predecessor = index_of(pod).and_then(|index| self.last_failed_pod(index));
        predecessor.is_some_and(|predecessor| predecessor.uid() == pod.uid())
    }

    /// Counts the Pods that exist now.
    pub(super) fn count_pods(&mut self, pods: &[Arc<PartialPod>]) {
        let active = || pods.iter().filter(|pod| pod.is_active());
        self.status.active = omit_zero(as_count(active().count()));
        self.status.ready = Some(as_count(active().filter(|pod| pod.is_ready()).count()));
        self.status.terminating = Some(as_count(pods.iter().filter(|pod| pod.is_terminating()).count()));
    }

    /// Announces the outcome in a condition before the Job finishes.
    pub(super) fn announce_outcome(&mut self, outcome: &JobOutcome) {
        let (r#type, reason, message) = match outcome {
            JobOutcome::Complete { reason, message } => ("SuccessCriteriaMet", reason, message),
            JobOutcome::Failed { reason, message } => ("FailureTarget", reason, message),
        };
        self.set("True", r#type, reason, message);
    }

    /// Finishes the Job if every Pod is counted and either gone or finished. Returns whether it did.
    pub(super) fn finish_job(&mut self, outcome: &JobOutcome) -> bool {
        let uncounted = self.uncounted();
        let is_open = uncounted.succeeded.is_some() || uncounted.failed.is_some();
        if is_open || self.status.terminating.unwrap_or_default() > 0 {
            return false;
        }
        match outcome {
            JobOutcome::Complete { reason, message } => {
                self.set("True", "Complete", reason, message);
                self.status.completion_time = Some(whole_second(self.now));
            }
            JobOutcome::Failed { reason, message } => self.set("True", "Failed", reason, message),
        }
        true
    }

    /// Records whether the Job is suspended. If that has changed, returns the reason for an event.
    pub(super) fn update_suspension(&mut self) -> Option<&'static str> {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        let known = conditions.iter().find(|condition| condition.type_ == "Suspended");
        let (is, was) = (is_suspended(self.spec), known.is_some_and(|condition| condition.status == "True"));
        match (is, was) {
            (true, false) => {
                self.set("True", "Suspended", "JobSuspended", "Job suspended");
                self.status.start_time = None;
                Some("Suspended")
            }
            (false, true) => {
                self.set("False", "Suspended", "JobResumed", "Job resumed");
                self.status.start_time = Some(whole_second(self.now));
                Some("Resumed")
            }
            _ => None,
        }
    }

    fn set(&mut self, status: &str, r#type: &str, reason: &str, message: &str) {
        let new = JobCondition {
            type_: r#type.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(whole_second(self.now)),
            last_transition_time: Some(whole_second(self.now)),
        };
        let conditions = self.status.conditions.get_or_insert_default();
        match conditions.iter_mut().find(|known| known.type_ == r#type) {
            Some(known) if known.status == new.status && known.reason == new.reason => {}
            Some(known) => *known = new,
            None => conditions.push(new),
        }
    }
}

pub(super) fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

fn text_or_empty(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

fn note_uid(uids: &mut Option<Vec<String>>, pod: &PartialPod) {
    let uids = uids.get_or_insert_default();
    if !uids.iter().any(|uid| uid == pod.uid()) {
        uids.push(pod.uid().to_owned());
    }
}

/// Returns the earlier failures of the Pod's index.
fn failures(pod: &PartialPod) -> i32 {
    pod.annotation(INDEX_FAILURES).and_then(|text| text.parse().ok()).unwrap_or_default()
}
