//! Handles Jobs: Pods that run to completion, are counted once each, and are retried up to a limit.
//!
//! The decisions are in `progress`, `pod_failure_policy` and `indexes`, which perform no I/O. A finished Job is left
//! alone until its time to live has passed.

mod backoff;
mod finalizer_release;
mod indexes;
mod pod_failure_policy;
mod progress;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{self as core, EnvVar, EnvVarSource, ObjectFieldSelector};
use serde_json::{Value, json};

use self::progress::{
    FINALIZER, INDEX, INDEX_FAILURES, JobOutcome, JobProgress, index_of, is_indexed, is_suspended,
};
use super::deletion_order::pods_to_delete;
use super::ownership::{claim_objects, label_selector};
use super::partial_pod::PartialPod;
use super::pod_control;
use super::pod_template::generated_pod;

/// The value of `spec.managedBy` that means this controller.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The maximum length of the prefix of a generated name: the server truncates it to make room for five random
/// characters.
const GENERATED_NAME_MAX: usize = 58;

/// The environment variable that tells a container its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

pub(super) fn controls() -> [BuiltController; 2] {
    [control(), finalizer_release::control()]
}

fn control() -> BuiltController {
    Controller::<Job>::new()
        .named("job-controller")
        .owns::<PartialPod>()
        .selects::<PartialPod, _>(|job: &Job| Some(label_selector(job.spec.as_ref()?.selector.as_ref()?)))
        .writes_status::<Job>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(job: Arc<Job>, cx: Context<Job>) -> Result {
    let Some(spec) = &job.spec else { return Ok(Action::await_change()) };
    // This controller enforces the time to live, no matter who manages the Job.
    if let Some(finished) = finished(&job) {
        return expire(&job, spec, finished, &cx).await;
    }
    if spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return Ok(Action::await_change());
    }
    let Some(selector) = spec.selector.as_ref().map(label_selector) else {
        return Ok(Action::await_change());
    };
    let pods = claim_objects::<_, PartialPod>(&cx, &selector, |_| true).await?;
    JobSync { cx: &cx, job: &job, spec, progress: JobProgress::new(&job, spec, &pods, cx.now()) }.run().await
}

/// Returns when the Job finished, if it has.
fn finished(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let is_end = |r#type: &str| matches!(r#type, "Complete" | "Failed");
    let end = conditions.iter().find(|condition| is_end(&condition.type_) && condition.status == "True")?;
    end.last_transition_time.as_ref().map(|time| time.0)
}

/// Deletes a finished Job when its time to live has passed.
async fn expire(job: &Job, spec: &JobSpec, finished: Timestamp, cx: &Context<Job>) -> Result {
    let Some(seconds) = spec.ttl_seconds_after_finished else { return Ok(Action::await_change()) };
    let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let age = Duration::try_from(cx.now().duration_since(finished)).unwrap_or_default();
    if age < lifetime {
        return Ok(Action::requeue(lifetime.saturating_sub(age)));
    }
    cx.delete(job).await?;
    Ok(Action::await_change())
}

struct JobSync<'a> {
    cx: &'a Context<Job>,
    job: &'a Job,
    spec: &'a JobSpec,
    progress: JobProgress<'a>,
}

impl JobSync<'_> {
    async fn run(mut self) -> Result {
        let mut outcome = self.progress.outcome();
        let mut wait = None;
        let managed = match &outcome {
            Some(_) => {
                let active: Vec<_> = self.progress.active().cloned().collect();
                pod_control::delete_pods(self.cx, &active).await
            }
            None => match self.adjust_pods().await {
                Ok(next) => {
                    wait = next;
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        let pods = self.cx.owned::<PartialPod>()?;
        self.progress.count_pods(&pods);
        if managed.is_err() {
            // The Pods to be deleted still exist, and the Job cannot finish before they are gone.
            outcome = None;
        } else if outcome.is_none() {
            outcome = self.completed();
            self.update_suspension();
        }
        self.count_ended_pods(outcome).await?;
        managed?;
        let waits =
            [wait, self.progress.deadline_in().filter(|_| finished_status(&self.progress.status).is_none())];
        Ok(waits.into_iter().flatten().min().map_or(Action::await_change(), Action::requeue))
    }

    fn completed(&self) -> Option<JobOutcome> {
        let succeeded = self.progress.succeeded();
        let is_enough = self.spec.completions.map_or(succeeded > 0, |completions| succeeded >= completions);
        (is_enough && self.progress.status.active.is_none()).then(JobOutcome::completed)
    }

    fn update_suspension(&mut self) {
        if let Some(reason) = self.progress.update_suspension() {
            let message = if reason == "Suspended" { "Job suspended" } else { "Job resumed" };
            self.cx.event(Severity::Normal, reason, message);
        }
    }

    /// Creates and deletes Pods until the desired number is active. Returns how long to wait before creating more.
    async fn adjust_pods(&self) -> Result<Option<Duration>, Error> {
        let active: Vec<_> = self.progress.active().cloned().collect();
        let wanted = if is_suspended(self.spec) { 0 } else { self.progress.wanted() };
        let superfluous = self.surplus_pods(active.clone(), active.len().saturating_sub(wanted));
        if !superfluous.is_empty() {
            self.delete_uncounted(&superfluous).await?;
            return Ok(None);
        }
        let missing = wanted.saturating_sub(self.progress.terminating_to_await() + active.len());
        if missing == 0 {
            return Ok(None);
        }
        if self.spec.backoff_limit_per_index.is_some() {
            return self.create_ready_indexes(missing).await;
        }
        let backoff = self.progress.backoff();
        if !backoff.is_zero() {
            return Ok(Some(backoff));
        }
        self.create_missing(missing).await.map(|()| None)
    }

    /// Creates the Pods of the indexes that have waited long enough. Returns how long the next one has to wait.
    async fn create_ready_indexes(&self, missing: usize) -> Result<Option<Duration>, Error> {
        let indexes = self.progress.next_indexes(missing.min(pod_control::BURST));
        let wait = |index: &i32| self.progress.index_backoff(*index);
        let (ready, waiting): (Vec<_>, Vec<_>) = indexes.into_iter().partition(|index| wait(index).is_zero());
        self.create_indexes(&ready).await?;
        Ok(waiting.iter().map(wait).min())
    }

    /// Returns the surplus Pods, including those that share an index with another.
    fn surplus_pods(&self, active: Vec<Arc<PartialPod>>, at_least: usize) -> Vec<Arc<PartialPod>> {
        let now = self.cx.now();
        let (mut gone, mut left) = (Vec::new(), active);
        if is_indexed(self.spec) {
            (gone, left) = duplicates(left, self.spec.completions.unwrap_or_default(), now);
        }
        if gone.len() < at_least {
            gone.extend(pods_to_delete(left, &[], at_least - gone.len(), now));
        }
        gone.truncate(pod_control::BURST);
        gone
    }

    /// Deletes Pods that did not fail; without the finalizer, they are not counted.
    async fn delete_uncounted(&self, pods: &[Arc<PartialPod>]) -> Result<(), Error> {
        let released =
            join_all(pods.iter().map(|pod| finalizer_release::remove_finalizer(self.cx, pod))).await;
        released.into_iter().collect::<Result<Vec<_>, _>>()?;
        pod_control::delete_pods(self.cx, pods).await
    }

    async fn create_missing(&self, missing: usize) -> Result<(), Error> {
        if is_indexed(self.spec) {
            return self.create_indexes(&self.progress.next_indexes(missing.min(pod_control::BURST))).await;
        }
        let pod = self.new_pod();
        pod_control::create_pods(self.cx, missing, |_| pod.clone()).await
    }

    async fn create_indexes(&self, indexes: &[i32]) -> Result<(), Error> {
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        let pod = self.new_pod();
        let make = |number: usize| {
            let mut pod = pod_of_index(pod.clone(), name, indexes[number]);
            if self.spec.backoff_limit_per_index.is_some() {
                let failures = self.progress.index_failures(indexes[number]).to_string();
                pod.metadata.annotations.get_or_insert_default().insert(INDEX_FAILURES.to_owned(), failures);
            }
            pod
        };
        pod_control::create_pods(self.cx, indexes.len(), make).await
    }

    /// Returns a new Pod of this Job, which its finalizer holds until it is counted.
    fn new_pod(&self) -> core::Pod {
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        let mut pod = generated_pod(&self.spec.template, name);
        let finalizers = pod.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        pod
    }

    /// Records finished Pods in the status, removes their finalizers, and adds them to the counts.
    async fn count_ended_pods(&mut self, outcome: Option<JobOutcome>) -> Result<(), Error> {
        if let Some(outcome) = &outcome {
            self.progress.announce_outcome(outcome);
        }
        let through = self.progress.note_finished_pods(outcome.as_ref());
        let known = self.job.status.clone().unwrap_or_default();
        self.write(&known).await?;
        let noted = self.progress.status.clone();
        let released =
            join_all(through.iter().map(|pod| finalizer_release::remove_finalizer(self.cx, pod))).await;
        released.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.progress.count_released(&BTreeSet::new());
        let is_concluded = outcome.as_ref().is_some_and(|outcome| self.progress.finish_job(outcome));
        self.write(&noted).await?;
        if let Some(outcome) = outcome.filter(|_| is_concluded) {
            self.report_outcome(&outcome);
        }
        Ok(())
    }

    /// Writes the status if it differs from the last status known to be on the server.
    async fn write(&self, known: &JobStatus) -> Result<(), Error> {
        if self.progress.status == *known {
            return Ok(());
        }
        self.cx
            .patch_status(self.job, json!({"status": status_with_nulls(&self.progress.status)}))
            .await
            .map(drop)
    }

    fn report_outcome(&self, outcome: &JobOutcome) {
        match outcome {
            JobOutcome::Complete { .. } => self.cx.event(Severity::Normal, "Completed", "Job completed"),
            JobOutcome::Failed { reason, message } => self.cx.event(Severity::Warning, reason, message),
        }
    }
}

fn finished_status(status: &JobStatus) -> Option<()> {
    let conditions = status.conditions.as_deref()?;
    conditions.iter().any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed")).then_some(())
}

/// Returns the status with nulls for absent fields, so that a merge patch removes them.
fn status_with_nulls(status: &JobStatus) -> Value {
    let fields =
        ["active", "completedIndexes", "completionTime", "conditions", "failed", "failedIndexes", "ready"];
    let more = ["startTime", "succeeded", "terminating"];
    let mut whole = json!(status);
    for field in fields.into_iter().chain(more) {
        if whole.get(field).is_none() {
            whole[field] = Value::Null;
        }
    }
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    whole["uncountedTerminatedPods"] = json!({"succeeded": uncounted.succeeded, "failed": uncounted.failed});
    whole
}

/// Creates the Pod for one index.
fn pod_of_index(mut pod: core::Pod, job: &str, index: i32) -> core::Pod {
    let meta = &mut pod.metadata;
    meta.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    meta.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    meta.generate_name = Some(index_prefix(job, index));
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{job}-{index}"));
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            let variables = container.env.get_or_insert_default();
            if !variables.iter().any(|variable| variable.name == INDEX_VARIABLE) {
                variables.push(index_variable());
            }
        }
    }
    pod
}

/// Returns the name prefix of an index's Pods. Truncates a long Job name, so that the index is kept.
fn index_prefix(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let kept: String = job.chars().take(GENERATED_NAME_MAX.saturating_sub(end.len())).collect();
    kept + &end
}

fn index_variable() -> EnvVar {
    let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
    EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    }
}

/// Splits the Pods into those that have no index below `bound` or share theirs with a better one, and the others.
fn duplicates(
    pods: Vec<Arc<PartialPod>>,
    bound: i32,
    now: Timestamp,
) -> (Vec<Arc<PartialPod>>, Vec<Arc<PartialPod>>) {
    let mut by_index: std::collections::BTreeMap<Option<i32>, Vec<Arc<PartialPod>>> =
        std::collections::BTreeMap::new();
    for pod in pods {
        by_index.entry(index_of(&pod).filter(|index| *index < bound)).or_default().push(pod);
    }
    let (mut gone, mut left) = (by_index.remove(&None).unwrap_or_default(), Vec::new());
    for same in by_index.into_values() {
        let excess = same.len() - 1;
        let chosen = if excess == 0 { Vec::new() } else { pods_to_delete(same.clone(), &[], excess, now) };
        left.extend(same.into_iter().filter(|pod| !chosen.iter().any(|other| other.uid() == pod.uid())));
        gone.extend(chosen);
    }
    (gone, left)
}
