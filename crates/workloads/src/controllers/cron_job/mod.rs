//! Handles CronJobs: creates a Job at every time in a schedule.
//!
//! A Job's name contains the minute it is for, so a run that was started but not recorded before a crash is found again
//! and not started twice. Without a `timeZone` the schedule is in UTC.

mod due_runs;
mod time_zone;

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::cron::Schedule;
use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use self::due_runs::{DueRun, ScheduleWindow};
use self::time_zone::load_zone;
use super::numbers::as_usize;
use super::ownership::is_controlled_by;
use super::pod_control::error_message;

/// The annotation that holds the time a Job was scheduled for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// How long after a scheduled time to check again, so that the clock is certain to have passed it.
const MARGIN: Duration = Duration::from_millis(100);

pub(super) fn control() -> BuiltController {
    Controller::<CronJob>::new()
        .named("cronjob-controller")
        .owns::<Job>()
        .writes_status::<CronJob>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(cron: Arc<CronJob>, cx: Context<CronJob>) -> Result {
    let spec = &cron.spec;
    let mut jobs = cx.owned::<Job>()?;
    jobs.retain(|job| is_controlled_by(&job.metadata, &cron.metadata));
    let mut run = CronJobSync { cx: &cx, cron: &cron, spec, status: cron.status.clone().unwrap_or_default() };
    run.update_job_lists(&jobs);
    let next = run.start().await;
    let cleaned = run.clean_up(&jobs).await;
    run.status.active = run.status.active.filter(|active| !active.is_empty());
    cx.replace_status(&run.status);
    cleaned?;
    Ok(next?.map_or(Action::await_change(), |wait| Action::requeue(wait + MARGIN)))
}

struct CronJobSync<'a> {
    cx: &'a Context<CronJob>,
    cron: &'a CronJob,
    spec: &'a CronJobSpec,
    status: CronJobStatus,
}

/// Returns how a Job finished, if it has: `Complete` or `Failed`.
fn ended_condition(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let mut ends = conditions.iter().filter(|condition| matches!(&*condition.type_, "Complete" | "Failed"));
    ends.find(|condition| condition.status == "True").map(|condition| condition.type_.as_str())
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

impl CronJobSync<'_> {
    /// Brings the list of active Jobs and the time of the last success up to date.
    fn update_job_lists(&mut self, jobs: &[Arc<Job>]) {
        for job in jobs {
            let is_listed = self.is_active(job);
            match ended_condition(job) {
                None if !is_listed => {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {}", name(job));
                    self.cx.event(Severity::Warning, "UnexpectedJob", message);
                }
                Some(end) if is_listed => {
                    self.forget(job.metadata.uid.as_deref());
                    let message = format!("Saw completed job: {}, condition: {end}", name(job));
                    self.cx.event(Severity::Normal, "SawCompletedJob", message);
                }
                _ => {}
            }
            let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
            if ended_condition(job) == Some("Complete") && completed > self.status.last_successful_time {
                self.status.last_successful_time = completed;
            }
        }
        let active = self.status.active.take().unwrap_or_default();
        let (present, missing): (Vec<_>, Vec<_>) =
            active.into_iter().partition(|one| jobs.iter().any(|job| job.metadata.uid == one.uid));
        for job in missing {
            let message = format!("Active job went missing: {}", job.name.unwrap_or_default());
            self.cx.event(Severity::Normal, "MissingJob", message);
        }
        self.status.active = Some(present);
    }

    fn is_active(&self, job: &Job) -> bool {
        self.status.active.iter().flatten().any(|one| one.uid == job.metadata.uid)
    }

    fn forget(&mut self, uid: Option<&str>) {
        self.status.active.iter_mut().for_each(|active| active.retain(|one| one.uid.as_deref() != uid));
    }

    /// Starts the run that is due, if the policies allow it. Returns the time until the next run.
    async fn start(&mut self) -> Result<Option<Duration>, Error> {
        if self.spec.suspend == Some(true) {
            return Ok(None);
        }
        let zone = match load_zone(self.spec.time_zone.as_deref()) {
            Ok(zone) => zone,
            Err(why) => {
                let name = self.spec.time_zone.as_deref().unwrap_or_default();
                self.warn("UnknownTimeZone", format!("invalid timeZone: \"{name}\": {why}"));
                return Ok(None);
            }
        };
        let schedule = match self.spec.schedule.parse::<Schedule>() {
            Ok(schedule) => schedule,
            Err(why) => {
                let message = format!("unparseable schedule: \"{}\" : {why}", self.spec.schedule);
                self.warn("UnparseableSchedule", message);
                return Ok(None);
            }
        };
        let since =
            self.status.last_schedule_time.as_ref().or(self.cron.metadata.creation_timestamp.as_ref());
        let now = self.cx.now();
        let since = since.map_or(now, |time| time.0);
        let plan = ScheduleWindow { schedule: &schedule, zone: &zone, since, now };
        let deadline = self.spec.starting_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let deadline = deadline.map(Duration::from_secs);
        let Some(next_in) = plan.next_in() else {
            // An example is the 31st of February.
            let why = "time difference between two schedules is less than 1 second";
            self.warn("InvalidSchedule", format!("invalid schedule: {} : {why}", self.spec.schedule));
            return Ok(None);
        };
        match plan.due_run(deadline) {
            Some(due) => self.start_run(due, &zone).await?,
            None => self.report_missed(&plan, deadline),
        }
        Ok(Some(next_in))
    }

    fn warn(&self, reason: &str, message: String) {
        self.cx.event(Severity::Warning, reason, message);
    }

    /// Reports a run that is due, but later than the deadline allows.
    fn report_missed(&self, plan: &ScheduleWindow<'_>, deadline: Option<Duration>) {
        if deadline.is_some()
            && let Some(missed) = plan.due_run(None)
        {
            let message = format!("Missed scheduled time to start a job: {}", missed.at);
            self.warn("MissSchedule", message);
        }
    }

    async fn start_run(&mut self, due: DueRun, zone: &TimeZone) -> Result<(), Error> {
        if due.has_missed_many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message.to_owned());
        }
        let job = self.job(due.at, zone);
        let is_running = |one: &ObjectReference| one.name == job.metadata.name;
        if self.status.active.iter().flatten().any(is_running) {
            return Ok(());
        }
        let active = self.status.active.clone().unwrap_or_default();
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.cx.event(Severity::Normal, "JobAlreadyActive", message);
                return Ok(());
            }
            Some("Replace") => {
                for one in &active {
                    if let Some(job) = self.cx.get::<Job>(one.name.as_deref().unwrap_or_default())? {
                        self.delete(&job).await?;
                    }
                }
            }
            _ => {}
        }
        // This is boxed because a Job is large and is held across the request.
        Box::pin(self.create(job, due.at)).await
    }

    fn job(&self, at: Timestamp, zone: &TimeZone) -> Job {
        let template = &self.spec.job_template;
        let described = template.metadata.clone().unwrap_or_default();
        let mut annotations = described.annotations.unwrap_or_default();
        annotations.insert(SCHEDULED.to_owned(), local_time(at, zone));
        let cron = self.cron.metadata.name.as_deref().unwrap_or_default();
        Job {
            metadata: ObjectMeta {
                name: Some(format!("{cron}-{}", at.as_second() / 60)),
                labels: described.labels,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    }

    async fn create(&mut self, job: Job, at: Timestamp) -> Result<(), Error> {
        let job_name = name(&job).to_owned();
        let created = match self.cx.create::<_, Job>(job).await {
            Ok(created) => {
                self.cx.event(Severity::Normal, "SuccessfulCreate", format!("Created job {job_name}"));
                created
            }
            // The Job was started before a crash but not recorded: it is ours unless a different object controls it.
            Err(error) if error.is_conflict() => {
                let known = self.cx.get::<Job>(job_name.as_str())?;
                match known.filter(|job| is_controlled_by(&job.metadata, &self.cron.metadata)) {
                    Some(known) => known,
                    None => return Ok(()),
                }
            }
            Err(error) => {
                self.warn("FailedCreate", format!("Error creating job: {}", error_message(&error)));
                return Err(error);
            }
        };
        if ended_condition(&created).is_none() && !self.is_active(&created) {
            self.status.active.get_or_insert_default().push(reference(&created));
        }
        self.status.last_schedule_time = Some(Time(at));
        Ok(())
    }

    async fn delete(&mut self, job: &Job) -> Result<(), Error> {
        if let Err(error) = self.cx.delete(job).await {
            self.warn("FailedDelete", format!("Deleted job: {}", error_message(&error)));
            return Err(error);
        }
        self.forget(job.metadata.uid.as_deref());
        self.cx.event(Severity::Normal, "SuccessfulDelete", format!("Deleted job {}", name(job)));
        Ok(())
    }

    /// Deletes the oldest finished Jobs beyond the history limits.
    async fn clean_up(&mut self, jobs: &[Arc<Job>]) -> Result<(), Error> {
        let limits = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (sort, limit) in limits {
            let Some(limit) = limit else { continue };
            let mut ended: Vec<_> = jobs.iter().filter(|job| ended_condition(job) == Some(sort)).collect();
            ended.retain(|job| job.metadata.deletion_timestamp.is_none());
            ended.sort_by_key(|job| (started(job), name(job)));
            for job in ended.iter().take(ended.len().saturating_sub(as_usize(limit))) {
                self.delete(job).await?;
            }
        }
        Ok(())
    }
}

fn started(job: &Job) -> (bool, Option<&Time>) {
    let start = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    (start.is_none(), start)
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the local time in the zone, with the offset: `2026-03-01T10:15:00+01:00`.
fn local_time(at: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(at);
    if offset.seconds() == 0 { at.to_string() } else { at.display_with_offset(offset).to_string() }
}
