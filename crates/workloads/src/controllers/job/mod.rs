//! Jobs: Pods that run to their end, counted once each, retried up to a limit.
//!
//! The decisions are in `account`, `policy` and `indexes`, which do no I/O. A finished Job is left alone but for its
//! time to live.

mod backoff;
mod finalizer_release;
mod indexes;
mod policy;
mod progress;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use homeostat_runtime::{Action, Context, Control, Controller, Error, Result, Severity};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{self as core, EnvVar, EnvVarSource, ObjectFieldSelector};
use serde_json::{Value, json};

use self::progress::{
    FINALIZER, INDEX, INDEX_FAILURES, JobOutcome, JobProgress, index_of, is_indexed, is_suspended,
};
use super::deletion_order::victims;
use super::ownership::{claim, selector};
use super::partial_pod::Pod;
use super::pod_control;
use super::template::generated;

/// Who minds the Jobs that nobody else is named for.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The variable that tells a container its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

pub(super) fn controls() -> [Control; 2] {
    [control(), finalizer_release::control()]
}

fn control() -> Control {
    Controller::<Job>::new()
        .named("job-controller")
        .owns::<Pod>()
        .selects::<Pod, _>(|job: &Job| Some(selector(job.spec.as_ref()?.selector.as_ref()?)))
        .writes_status::<Job>()
        .reconcile(reconcile)
}

async fn reconcile(job: Arc<Job>, cx: Context<Job>) -> Result {
    let Some(spec) = &job.spec else { return Ok(Action::await_change()) };
    if spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return Ok(Action::await_change());
    }
    if let Some(finished) = finished(&job) {
        return expire(&job, spec, finished, &cx).await;
    }
    let Some(selector) = spec.selector.as_ref().map(selector) else { return Ok(Action::await_change()) };
    let pods = claim::<_, Pod>(&cx, &selector, |_| true).await?;
    JobSync { cx: &cx, job: &job, spec, account: JobProgress::open(&job, spec, &pods, cx.now()) }.run().await
}

/// When the Job ended, if it has.
fn finished(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let is_end = |r#type: &str| matches!(r#type, "Complete" | "Failed");
    let end = conditions.iter().find(|condition| is_end(&condition.type_) && condition.status == "True")?;
    end.last_transition_time.as_ref().map(|time| time.0)
}

/// Deletes a finished Job when its time to live is over.
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
    account: JobProgress<'a>,
}

impl JobSync<'_> {
    async fn run(mut self) -> Result {
        let mut verdict = self.account.verdict();
        let mut wait = None;
        let managed = match &verdict {
            Some(_) => {
                let active: Vec<_> = self.account.active().cloned().collect();
                pod_control::delete(self.cx, &active).await
            }
            None => match self.manage().await {
                Ok(next) => {
                    wait = next;
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        let pods = self.cx.owned::<Pod>()?;
        self.account.recount(&pods);
        if managed.is_err() {
            // The Pods that should go are still there: the end must wait for them.
            verdict = None;
        } else if verdict.is_none() {
            verdict = self.completed();
            self.mind_suspension();
        }
        self.track(verdict).await?;
        managed?;
        let waits =
            [wait, self.account.deadline_in().filter(|_| finished_status(&self.account.status).is_none())];
        Ok(waits.into_iter().flatten().min().map_or(Action::await_change(), Action::requeue))
    }

    fn completed(&self) -> Option<JobOutcome> {
        let succeeded = self.account.succeeded();
        let is_enough = self.spec.completions.map_or(succeeded > 0, |completions| succeeded >= completions);
        (is_enough && self.account.status.active.is_none()).then(JobOutcome::completed)
    }

    fn mind_suspension(&mut self) {
        if let Some(reason) = self.account.mind_suspension() {
            let message = if reason == "Suspended" { "Job suspended" } else { "Job resumed" };
            self.cx.event(Severity::Normal, reason, message);
        }
    }

    /// Makes and removes Pods until as many are active as wanted. Returns how long to wait with more.
    async fn manage(&self) -> Result<Option<Duration>, Error> {
        let active: Vec<_> = self.account.active().cloned().collect();
        let wanted = if is_suspended(self.spec) { 0 } else { self.account.wanted() };
        let superfluous = self.superfluous(active.clone(), active.len().saturating_sub(wanted));
        if !superfluous.is_empty() {
            self.dismiss(&superfluous).await?;
            return Ok(None);
        }
        let missing = wanted.saturating_sub(self.account.awaited() + active.len());
        if missing == 0 {
            return Ok(None);
        }
        if self.spec.backoff_limit_per_index.is_some() {
            return self.hire_ready(missing).await;
        }
        let backoff = self.account.backoff();
        if !backoff.is_zero() {
            return Ok(Some(backoff));
        }
        self.hire(missing).await.map(|()| None)
    }

    /// Makes the Pods of the indexes that have waited long enough. Returns how long the next one waits.
    async fn hire_ready(&self, missing: usize) -> Result<Option<Duration>, Error> {
        let indexes = self.account.next_indexes(missing.min(pod_control::BURST));
        let wait = |index: &i32| self.account.index_backoff(*index);
        let (ready, waiting): (Vec<_>, Vec<_>) = indexes.into_iter().partition(|index| wait(index).is_zero());
        self.hire_indexes(&ready).await?;
        Ok(waiting.iter().map(wait).min())
    }

    /// The Pods that are too many, among them every second one of an index.
    fn superfluous(&self, active: Vec<Arc<Pod>>, at_least: usize) -> Vec<Arc<Pod>> {
        let now = self.cx.now();
        let (mut gone, mut left) = (Vec::new(), active);
        if is_indexed(self.spec) {
            (gone, left) = duplicates(left, self.spec.completions.unwrap_or_default(), now);
        }
        if gone.len() < at_least {
            gone.extend(victims(left, &[], at_least - gone.len(), now));
        }
        gone.truncate(pod_control::BURST);
        gone
    }

    /// Removes Pods that did nothing wrong: without the finalizer they are not counted.
    async fn dismiss(&self, pods: &[Arc<Pod>]) -> Result<(), Error> {
        let released = join_all(pods.iter().map(|pod| finalizer_release::release(self.cx, pod))).await;
        released.into_iter().collect::<Result<Vec<_>, _>>()?;
        pod_control::delete(self.cx, pods).await
    }

    async fn hire(&self, missing: usize) -> Result<(), Error> {
        if is_indexed(self.spec) {
            return self.hire_indexes(&self.account.next_indexes(missing.min(pod_control::BURST))).await;
        }
        let pod = self.pod();
        pod_control::create(self.cx, missing, |_| pod.clone()).await
    }

    async fn hire_indexes(&self, indexes: &[i32]) -> Result<(), Error> {
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        let pod = self.pod();
        let make = |number: usize| {
            let mut pod = indexed(pod.clone(), name, indexes[number]);
            if self.spec.backoff_limit_per_index.is_some() {
                let failures = self.account.index_failures(indexes[number]).to_string();
                pod.metadata.annotations.get_or_insert_default().insert(INDEX_FAILURES.to_owned(), failures);
            }
            pod
        };
        pod_control::create(self.cx, indexes.len(), make).await
    }

    /// A Pod of this Job, held until it is counted.
    fn pod(&self) -> core::Pod {
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        let mut pod = generated(&self.spec.template, name);
        let finalizers = pod.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        pod
    }

    /// Writes the Pods that ended into the status, takes their finalizers off, and turns them into numbers.
    async fn track(&mut self, verdict: Option<JobOutcome>) -> Result<(), Error> {
        if let Some(verdict) = &verdict {
            self.account.announce(verdict);
        }
        let through = self.account.write_down(verdict.as_ref());
        let known = self.job.status.clone().unwrap_or_default();
        self.write(&known).await?;
        let noted = self.account.status.clone();
        let released = join_all(through.iter().map(|pod| finalizer_release::release(self.cx, pod))).await;
        released.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.account.settle(&BTreeSet::new());
        let is_concluded = verdict.as_ref().is_some_and(|verdict| self.account.conclude(verdict));
        self.write(&noted).await?;
        if let Some(verdict) = verdict.filter(|_| is_concluded) {
            self.tell(&verdict);
        }
        Ok(())
    }

    /// Writes the status if it differs from what is known to be there.
    async fn write(&self, known: &JobStatus) -> Result<(), Error> {
        if self.account.status == *known {
            return Ok(());
        }
        self.cx.patch_status(self.job, json!({"status": whole(&self.account.status)})).await.map(drop)
    }

    fn tell(&self, verdict: &JobOutcome) {
        match verdict {
            JobOutcome::Complete { .. } => self.cx.event(Severity::Normal, "Completed", "Job completed"),
            JobOutcome::Failed { reason, message } => self.cx.event(Severity::Warning, reason, message),
        }
    }
}

fn finished_status(status: &JobStatus) -> Option<()> {
    let conditions = status.conditions.as_deref()?;
    conditions.iter().any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed")).then_some(())
}

/// The status with everything it does not say said to be absent, so that a merge leaves nothing behind.
fn whole(status: &JobStatus) -> Value {
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

/// The Pod of one index.
fn indexed(mut pod: core::Pod, job: &str, index: i32) -> core::Pod {
    let meta = &mut pod.metadata;
    meta.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    meta.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    meta.generate_name = Some(format!("{job}-{index}-"));
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

fn index_variable() -> EnvVar {
    let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
    EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    }
}

/// The Pods that have no index below `bound` or share theirs with a better one, and the others.
fn duplicates(pods: Vec<Arc<Pod>>, bound: i32, now: Timestamp) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut by_index: std::collections::BTreeMap<Option<i32>, Vec<Arc<Pod>>> =
        std::collections::BTreeMap::new();
    for pod in pods {
        by_index.entry(index_of(&pod).filter(|index| *index < bound)).or_default().push(pod);
    }
    let (mut gone, mut left) = (by_index.remove(&None).unwrap_or_default(), Vec::new());
    for same in by_index.into_values() {
        let excess = same.len() - 1;
        let chosen = if excess == 0 { Vec::new() } else { victims(same.clone(), &[], excess, now) };
        left.extend(same.into_iter().filter(|pod| !chosen.iter().any(|other| other.uid() == pod.uid())));
        gone.extend(chosen);
    }
    (gone, left)
}
