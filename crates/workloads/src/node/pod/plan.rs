//! Decides what to do about a Pod's processes in the current situation, without I/O and without state.
//!
//! **Invariant:** the same situation yields the same plan, and carrying out a plan twice has the same effect as once:
//! starts name their attempt, and stops may be repeated. A reconcile may therefore be lost or run twice at any point.

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::container_roles::{
    ContainerRole, PodContainer, all_containers, grace_s, init_containers, main_containers,
};
use super::phase;
use super::restart::AfterExit;
use crate::node::options::RestartBackoff;
use crate::node::probe::PodHealth;
use crate::node::supervisor::protocol::{ContainerRunStatus, RunState};
use crate::node::supervisor_client::PodRuns;

/// Everything that a plan depends on.
pub(crate) struct PodSituation<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) spec: &'a PodSpec,
    pub(crate) runs: &'a PodRuns,
    pub(crate) health: &'a PodHealth,
    pub(crate) now: Timestamp,
    pub(crate) backoff: RestartBackoff,
    pub(crate) address: Ipv4Addr,
}

/// A container to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedStart<'a> {
    pub(crate) part: PodContainer<'a>,
    pub(crate) attempt: u32,
    pub(crate) strikes: u32,
    pub(crate) interruptions: u32,
}

/// A container to stop, and the probe that failed, if that is why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerStop {
    pub(crate) container: String,
    pub(crate) grace: Duration,
    pub(crate) unhealthy: Option<&'static str>,
}

/// What to do now, and when to check again if nothing changes.
#[derive(Default)]
pub(crate) struct PodPlan<'a> {
    pub(crate) starts: Vec<PlannedStart<'a>>,
    pub(crate) stops: Vec<ContainerStop>,
    pub(crate) wake: Option<Duration>,
}

impl<'a> PodSituation<'a> {
    pub(crate) fn plan(&self) -> PodPlan<'a> {
        let mut plan = PodPlan::default();
        if let Some(grace) = self.must_end() {
            self.plan_stops(&mut plan, grace);
        } else if self.plan_init_containers(&mut plan) {
            self.plan_main_containers(&mut plan);
        }
        plan.wake = [plan.wake, self.time_left()].into_iter().flatten().min();
        plan
    }

    /// Returns the grace period for stopping everything, if the Pod must stop.
    pub(crate) fn must_end(&self) -> Option<Duration> {
        if let Some(at) = &self.pod.metadata.deletion_timestamp {
            return Some(Duration::try_from(at.0.duration_since(self.now)).unwrap_or_default());
        }
        let is_over = self.is_terminal() || self.is_expired();
        is_over.then(|| Duration::from_secs(grace_s(self.pod)))
    }

    /// Returns whether the status says that the Pod is over.
    pub(crate) fn is_terminal(&self) -> bool {
        phase::is_finished(self.pod)
    }

    /// Returns whether it has been active for longer than allowed.
    pub(crate) fn is_expired(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    fn deadline(&self) -> Option<Timestamp> {
        let started = self.pod.status.as_ref()?.start_time.as_ref()?.0;
        let allowed = jiff::SignedDuration::from_secs(self.spec.active_deadline_seconds?);
        // A deadline beyond the largest time never comes.
        started.checked_add(allowed).ok()
    }

    fn time_left(&self) -> Option<Duration> {
        let left = self.deadline()?.duration_since(self.now);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// Plans the init containers, one after the other. Returns whether the main ones may run.
    fn plan_init_containers(&self, plan: &mut PodPlan<'a>) -> bool {
        for part in init_containers(self.spec) {
            if self.has_completed(part) {
                continue;
            }
            self.ensure_running(part, plan);
            if part.role == ContainerRole::Init {
                if self.has_failed(part) {
                    self.plan_stops(plan, Duration::from_secs(grace_s(self.pod)));
                }
                return false;
            }
            if !self.is_started(part) {
                return false;
            }
        }
        true
    }

    fn plan_main_containers(&self, plan: &mut PodPlan<'a>) {
        for part in main_containers(self.spec) {
            self.ensure_running(part, plan);
        }
        if main_containers(self.spec).all(|part| self.is_at_rest(part)) {
            self.plan_stops(plan, Duration::from_secs(grace_s(self.pod)));
        }
    }

    fn ensure_running(&self, part: PodContainer<'a>, plan: &mut PodPlan<'a>) {
        let Some(run) = self.run(part) else {
            let attempt = self.lost_attempts(part);
            plan.starts.push(PlannedStart { part, attempt, strikes: 0, interruptions: 0 });
            return;
        };
        match &run.state {
            RunState::Starting => {}
            RunState::Running { .. } => {
                let results = self.health.results_for(part.container, run.attempt);
                if !results.is_live {
                    let grace = self.grace_of_probe(part.container, results.is_started);
                    let container = part.container.name.clone();
                    let probe = if results.is_started { "liveness" } else { "startup" };
                    plan.stops.push(ContainerStop { container, grace, unhealthy: Some(probe) });
                }
            }
            RunState::Ended { exit, .. } => match self.after_exit(part, run) {
                AfterExit::Rest => {}
                AfterExit::Restart => {
                    let attempt = run.attempt.saturating_add(1);
                    let strikes = self.strikes(run).saturating_add(1);
                    let interruptions = run.interruptions.saturating_add(u32::from(!exit.ended_on_its_own()));
                    plan.starts.push(PlannedStart { part, attempt, strikes, interruptions });
                }
                AfterExit::Wait { left, .. } => {
                    plan.wake = Some(plan.wake.map_or(left, |wake| wake.min(left)));
                }
            },
        }
    }

    /// Returns a container's attempts that only the status knows: the supervisor's records are gone, but the count
    /// continues.
    fn lost_attempts(&self, part: PodContainer<'_>) -> u32 {
        let Some(status) = &self.pod.status else { return 0 };
        let known = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let mut known = known.filter(|one| one.name == part.container.name && one.container_id.is_some());
        known
            .next()
            .and_then(|one| u32::try_from(one.restart_count).ok())
            .map_or(0, |count| count.saturating_add(1))
    }

    /// Returns the grace period of a container whose probe failed: the probe's own, or the Pod's.
    fn grace_of_probe(&self, container: &Container, is_started: bool) -> Duration {
        let probe = if is_started { &container.liveness_probe } else { &container.startup_probe };
        let asked = probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
        let asked = asked.and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(asked.unwrap_or_else(|| grace_s(self.pod)))
    }

    /// Stops the Pod's containers: sidecars once the others are gone, in reverse order. Without a grace period, stops
    /// all at the same time.
    fn plan_stops(&self, plan: &mut PodPlan<'_>, grace: Duration) {
        let is_live = |part: &PodContainer<'_>| self.run(*part).is_some_and(|run| !run.is_over());
        let (sidecars, others): (Vec<_>, Vec<_>) =
            all_containers(self.spec).filter(is_live).partition(|part| part.role == ContainerRole::Sidecar);
        let next = if grace.is_zero() { sidecars.len() } else { usize::from(others.is_empty()) };
        let ended = others.into_iter().chain(sidecars.into_iter().rev().take(next));
        plan.stops.extend(ended.map(|part| ContainerStop {
            container: part.container.name.clone(),
            grace,
            unhealthy: None,
        }));
    }

    pub(crate) fn run(&self, part: PodContainer<'_>) -> Option<&'a ContainerRunStatus> {
        self.runs.get(&part.container.name).map(|runs| &runs.current)
    }

    /// Returns whether an init container has succeeded.
    pub(crate) fn has_completed(&self, part: PodContainer<'_>) -> bool {
        let is_success = |run: &ContainerRunStatus| {
            run.exit().is_some_and(crate::node::supervisor::protocol::RunExit::is_success)
        };
        part.role == ContainerRole::Init && self.run(part).is_some_and(is_success)
    }

    /// Returns whether a container has failed and will not be started again.
    pub(crate) fn has_failed(&self, part: PodContainer<'_>) -> bool {
        self.run(part).is_some_and(|run| {
            run.exit().is_some_and(|exit| !exit.is_success()) && self.after_exit(part, run) == AfterExit::Rest
        })
    }

    /// Returns whether a sidecar has started, so that the next container may start.
    pub(crate) fn is_started(&self, part: PodContainer<'_>) -> bool {
        self.run(part).is_some_and(|run| {
            run.is_running() && self.health.results_for(part.container, run.attempt).is_started
        })
    }

    /// Returns whether a container has exited and will not be started again.
    pub(crate) fn is_at_rest(&self, part: PodContainer<'_>) -> bool {
        self.run(part).is_some_and(|run| run.is_over() && self.after_exit(part, run) == AfterExit::Rest)
    }

    /// Returns whether no process of the Pod is left.
    pub(crate) fn has_no_processes(&self) -> bool {
        self.runs.values().all(|runs| runs.current.is_over())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::supervisor::protocol::{ContainerKey, ContainerRuns, PodName, RunExit};

    fn runs(name: &str, attempt: u32, state: RunState) -> (String, ContainerRuns) {
        let id = ContainerKey { pod: "uid".to_owned(), container: name.to_owned() };
        let owner = PodName { namespace: "default".to_owned(), name: "web".to_owned() };
        let current = ContainerRunStatus { attempt, strikes: u32::MAX, interruptions: 0, state };
        (name.to_owned(), ContainerRuns { id, owner, current, previous: None })
    }

    /// Planning must not panic, whatever numbers a Pod contains.
    #[test]
    fn huge_numbers_do_not_panic() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ended = RunState::Ended { started_at: now, finished_at: now, exit: RunExit::Lost, message: None };
        let running = RunState::Running { pid: 1, started_ticks: 1, started_at: Timestamp::MIN };
        let known = PodRuns::from([runs("again", u32::MAX, ended), runs("runs", 0, running)]);
        let check = |seconds: i64, phase: &str, deletion: Option<&str>, grace: Duration| {
            let probe = json!({"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": seconds});
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "web", "uid": "uid", "deletionTimestamp": deletion},
                "spec": {"terminationGracePeriodSeconds": seconds, "activeDeadlineSeconds": seconds.max(1),
                    "containers": [{"name": "again"}, {"name": "runs", "livenessProbe": probe}, {"name": "new"}]},
                "status": {"phase": phase, "startTime": "2027-01-15T08:00:00Z", "containerStatuses": [
                    {"name": "new", "image": "", "imageID": "", "ready": false, "restartCount": i32::MAX,
                     "containerID": "process://1"}]},
            }))
            .unwrap();
            let situation = PodSituation {
                pod: &pod,
                spec: pod.spec.as_ref().unwrap(),
                runs: &known,
                health: &PodHealth::default(),
                now,
                backoff: RestartBackoff::default(),
                address: Ipv4Addr::LOCALHOST,
            };
            let plan = situation.plan();
            let stops: Vec<Duration> = plan.stops.iter().map(|stop| stop.grace).collect();
            let attempts: Vec<u32> = plan.starts.iter().map(|start| start.attempt).collect();
            match phase {
                "Running" => assert_eq!((attempts, stops), (vec![u32::MAX, 1 << 31], vec![])),
                _ => assert_eq!((attempts, stops), (vec![], vec![grace])),
            }
        };
        let ages = Duration::from_secs(i64::MAX.unsigned_abs());
        check(i64::MAX, "Running", None, ages);
        check(i64::MAX, "Failed", None, ages);
        check(i64::MIN, "Failed", None, Duration::from_secs(30));
        check(i64::MAX, "Failed", Some("9999-12-30T00:00:00Z"), Duration::from_secs(251_602_128_000));
        check(i64::MAX, "Failed", Some("0001-01-01T00:00:00Z"), Duration::ZERO);
    }
}
