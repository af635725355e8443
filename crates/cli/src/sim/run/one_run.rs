//! One run: a new server, the operator, the steps of the scenario, and the faults on the way.
//!
//! Time is real here, so rest is detected by waiting. An undisturbed run waits until nothing has been written for a
//! while. A disturbed one knows the state it waits for, that of the undisturbed run, and continues as soon as it is
//! reached; only a run that fails waits for the full time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Revision;
use homeostat_core::canonical_state::{CanonicalState, StateDifference, is_state};
use homeostat_store::Store as _;
use tokio::time::Instant;

use super::canonical_state::{canonical_state, objects_after};
use super::count_condition::CountCondition;
use super::fault::{Fault, FaultAtAddress};
use super::operator_process::{OperatorProcess, OutputLog};
use super::oracle::{self, AlwaysChecker};
use super::run_record::{Change, ReferenceRuns, RestState, RunRecord};
use super::scenario::{Scenario, StepAction};
use super::scenario_user::ScenarioUser;
use super::sim_server::SimServer;
use super::violation::Violation;
use super::wire::WireLog;
use super::wire_log::Actor;

/// The pause between two checks of the run: short compared with anything an operator does.
const LOOK_TIME: Duration = Duration::from_millis(10);
/// How long nothing must be written before a disturbed operator in the right state counts as at rest.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// How long an operator may take from its start to its first requests; an interpreter on a busy machine takes seconds,
/// and a new leader waits for the lease of the old one (usually 15 s).
const START_TIME: Duration = Duration::from_secs(40);
/// The factor by which an undisturbed operator may take longer than a disturbed one to come to rest: this wait happens
/// only twice.
const REFERENCE_FACTOR: u32 = 3;
/// How much longer than the patience a rest may take if the operator restarts repeatedly.
const RESTARTS_TIME: Duration = Duration::from_secs(120);
/// The pause before an operator that exited on its own is restarted.
const EXIT_PAUSE: Duration = Duration::from_millis(200);

/// The plan of one run.
#[derive(Clone, Copy)]
pub(super) struct RunPlan<'a> {
    pub(super) command: &'a str,
    pub(super) scenario: &'a Scenario,
    pub(super) seed: u64,
    pub(super) faults: &'a [FaultAtAddress],
    /// The factor by which the scenario's quiet time at rest is extended.
    pub(super) settle_factor: u32,
    /// The reference for a disturbed run; `None` for an undisturbed one.
    pub(super) reference: Option<&'a ReferenceRuns>,
}

/// Why a run ends early.
pub(super) enum Interruption {
    /// The operator broke a rule.
    Violation(Violation),
    /// Nothing can be tried: the scenario or the command is wrong.
    SetUp(String),
}

impl From<Violation> for Interruption {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

/// Runs the plan, with files in `folder`. The error says what is wrong with the scenario or the command.
pub(super) async fn run(plan: RunPlan<'_>, folder: &Path) -> Result<RunRecord, String> {
    let wire = Arc::new(WireLog::new(plan.faults));
    let server = SimServer::start(folder, plan.seed, Arc::clone(&wire)).await?;
    wire.set_born(server.born);
    let mut run = OneRun {
        plan,
        user: ScenarioUser::new(server.client.clone()),
        noted: server.born,
        server,
        wire,
        process: None,
        output: OutputLog::default(),
        changes: Vec::new(),
        changed_at: Instant::now(),
        started_at: Instant::now(),
        up_at: Instant::now(),
        is_up: false,
        always: AlwaysChecker::default(),
        rests: Vec::new(),
        watches: 0,
    };
    let outcome = run.run_phases().await;
    run.finish(outcome).await
}

pub(super) struct OneRun<'a> {
    pub(super) plan: RunPlan<'a>,
    pub(super) server: SimServer,
    pub(super) wire: Arc<WireLog>,
    user: ScenarioUser,
    process: Option<OperatorProcess>,
    output: OutputLog,
    /// Changes up to this revision are in `changes`.
    noted: Revision,
    pub(super) changes: Vec<Change>,
    changed_at: Instant,
    started_at: Instant,
    up_at: Instant,
    /// Whether the operator has made its first requests since it was started.
    is_up: bool,
    always: AlwaysChecker,
    rests: Vec<RestState>,
    watches: usize,
}

impl OneRun<'_> {
    async fn run_phases(&mut self) -> Result<(), Interruption> {
        for object in self.plan.scenario.setup() {
            self.user.set_up(object).await.map_err(Interruption::SetUp)?;
        }
        let is_down = self.wire.begin_step("step 1") == Some(Fault::Down);
        if !is_down {
            self.start_operator()?;
            self.rest("at the start").await?;
        } else if let Some(first) = self.plan.reference.and_then(|reference| reference.record.rests.first()) {
            self.rests.push(first.clone());
        }
        let steps = &self.plan.scenario.steps;
        for (at, step) in steps.iter().enumerate() {
            if at > 0 {
                self.disturb_step(&format!("step {}", at + 1)).await?;
            }
            let action = step.action().map_err(Interruption::SetUp)?;
            // Waiting for an operator that is down is useless.
            if action.object().is_none() && self.process.is_none() {
                self.start_operator()?;
            }
            self.perform(&action, &step.shown()).await?;
            if self.process.is_none() {
                self.start_operator()?;
            }
            self.rest(&format!("after step {} ({})", at + 1, step.shown())).await?;
        }
        oracle::judge_eventually(self.plan.scenario, &objects_after(&self.snapshot(), self.server.born))?;
        if self.plan.reference.is_none() {
            self.watch_at_rest().await?;
        }
        self.disturb_step("cleanup").await?;
        self.wire.note(Actor::User, "delete everything that the steps made");
        self.user.clean_up(&self.server.store).await.map_err(Interruption::SetUp)?;
        if self.process.is_none() {
            self.start_operator()?;
        }
        self.rest("after everything was deleted").await
    }

    /// Performs a step.
    async fn perform(&mut self, action: &StepAction<'_>, shown: &str) -> Result<(), Interruption> {
        self.wire.note(Actor::User, shown);
        match action {
            StepAction::WaitSeconds(time) => {
                let until = Instant::now() + *time;
                while Instant::now() < until {
                    self.look()?;
                    tokio::time::sleep(LOOK_TIME).await;
                }
                Ok(())
            }
            StepAction::WaitFor(condition) => self.wait_for(condition).await,
            action => self
                .user
                .perform(&self.server.store, action)
                .await
                .map_err(|why| Interruption::SetUp(format!("the step \"{shown}\" failed: {why}"))),
        }
    }

    async fn wait_for(&mut self, condition: &CountCondition) -> Result<(), Interruption> {
        let begun = Instant::now();
        loop {
            self.look()?;
            let objects = objects_after(&self.snapshot(), self.server.born);
            let Some(count) = condition.violation(objects.iter().map(|(key, object)| (key, object))) else {
                return Ok(());
            };
            if self.is_out_of_time(begun, self.plan.scenario.patience()) {
                let text = format!("the scenario waits for {condition}; there are still {count}");
                return Err(Violation::new(oracle::CONVERGES, condition.to_string(), text).into());
            }
            tokio::time::sleep(LOOK_TIME).await;
        }
    }

    /// Kills the operator before a step, if a fault says so.
    async fn disturb_step(&mut self, address: &str) -> Result<(), Interruption> {
        match self.wire.begin_step(address) {
            Some(Fault::Restart) => {
                self.stop_operator().await;
                self.start_operator()
            }
            Some(Fault::Down) => {
                self.stop_operator().await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn start_operator(&mut self) -> Result<(), Interruption> {
        self.wire.operator_starting();
        let process = OperatorProcess::start(self.plan.command, &self.server.kubeconfig, &self.output)
            .map_err(Interruption::SetUp)?;
        self.wire.operator_started(process.group());
        self.wire.note(Actor::Operator, "starts");
        self.process = Some(process);
        (self.started_at, self.is_up) = (Instant::now(), false);
        Ok(())
    }

    pub(super) async fn stop_operator(&mut self) {
        self.wire.kill_operator();
        if let Some(process) = self.process.take() {
            process.wait().await;
        }
        self.wire.operator_ended();
        self.is_up = false;
    }

    /// Records what happened since the last check: changes, the operator's end, its first requests, hot loops.
    pub(super) fn look(&mut self) -> Result<(), Interruption> {
        let noted = self.changes.len();
        self.note_changes();
        for commit in self.changes[noted..].chunk_by(|one, next| one.event.revision == next.event.revision) {
            self.always.observe(self.plan.scenario, commit)?;
        }
        self.look_at_process()?;
        if self.is_up {
            return Ok(oracle::judge_haste(&self.wire)?);
        }
        let state = self.wire.state();
        let watches = self.plan.reference.map_or(0, |reference| reference.record.watches);
        self.is_up = state.calls_since_start > 0 && state.open_watches >= watches;
        drop(state);
        self.up_at = Instant::now();
        if self.is_up || self.process.is_none() || self.started_at.elapsed() < START_TIME {
            return Ok(());
        }
        if self.plan.reference.is_none() && self.wire.state().calls.is_empty() {
            let seconds = START_TIME.as_secs();
            let why = "it must find the server through KUBECONFIG, and print why it cannot";
            return Err(Interruption::SetUp(format!(
                "the command made no request within {seconds} s; {why}"
            )));
        }
        Err(oracle::not_up(START_TIME).into())
    }

    fn note_changes(&mut self) {
        let Ok(events) = self.server.store.changes_after(self.noted) else { return };
        let at = self.wire.elapsed();
        for event in events {
            self.noted = self.noted.max(event.revision);
            if is_state(&event.key) {
                self.changed_at = Instant::now();
                self.changes.push(Change { at, event });
            }
        }
    }

    fn look_at_process(&mut self) -> Result<(), Interruption> {
        let Some(status) = self.process.as_mut().and_then(OperatorProcess::try_wait) else { return Ok(()) };
        if self.wire.operator_ended() {
            self.output.push("(killed by the simulator)".to_owned());
            return self.start_operator();
        }
        if self.wire.state().calls.is_empty() && self.plan.reference.is_none() {
            return Err(Interruption::SetUp(format!(
                "the command ended with {status} before its first request"
            )));
        }
        self.wire.note(Actor::Operator, format!("ends by itself: {status}"));
        if !self.plan.scenario.may_exit {
            return Err(oracle::ended(&status.to_string()).into());
        }
        if self.started_at.elapsed() < EXIT_PAUSE {
            return Err(oracle::ended(&format!("{status}, right after its start")).into());
        }
        self.start_operator()
    }

    /// Waits until the operator is at rest, and records the state.
    pub(super) async fn rest(&mut self, when: &str) -> Result<(), Interruption> {
        let number = self.rests.len();
        let begun = Instant::now();
        let mut differences = Vec::new();
        let mut compared = None;
        loop {
            self.look()?;
            if compared != Some(self.noted) {
                differences = self.differences(number);
                compared = Some(self.noted);
            }
            let settle = self.plan.scenario.settle() * self.plan.settle_factor;
            let needed = if self.plan.reference.is_some() { QUIET_TIME } else { settle };
            if self.is_up && differences.is_empty() && self.quiet_since(begun).elapsed() >= needed {
                break;
            }
            let patience = self.plan.scenario.patience();
            let patience = self.plan.reference.map_or(patience * REFERENCE_FACTOR, |_| patience);
            if self.is_out_of_time(begun, patience) {
                return Err(oracle::not_at_rest(when, &differences, &self.changes, patience).into());
            }
            tokio::time::sleep(LOOK_TIME).await;
        }
        if number == 0 {
            self.watches = self.wire.state().open_watches;
        }
        self.wire.note(Actor::Simulator, format!("the operator is at rest {when}"));
        self.rests.push(RestState { state: self.state() });
        Ok(())
    }

    fn differences(&self, rest: usize) -> Vec<StateDifference> {
        let Some(reference) = self.plan.reference else { return Vec::new() };
        reference.differences(rest, &self.state())
    }

    /// Returns when something was last written or newly requested, or a watch was last opened.
    fn quiet_since(&self, begun: Instant) -> Instant {
        let state = self.wire.state();
        let times = [state.write_ended_at, state.news_at, state.fault_ends_at];
        times.into_iter().flatten().fold(begun.max(self.changed_at).max(self.up_at), Instant::max)
    }

    /// Returns whether the operator has had its full time since it was last disturbed.
    fn is_out_of_time(&self, begun: Instant, patience: Duration) -> bool {
        let fault = self.wire.state().fault_ends_at;
        let disturbed_at = begun.max(self.up_at).max(fault.unwrap_or(begun));
        (self.is_up && disturbed_at.elapsed() > patience) || begun.elapsed() > patience + RESTARTS_TIME
    }

    fn state(&self) -> CanonicalState {
        canonical_state(&self.snapshot(), self.server.born)
    }

    fn snapshot(&self) -> homeostat_store::Snapshot {
        self.server.store.snapshot()
    }

    /// Watches an undisturbed operator at rest and after a restart.
    async fn watch_at_rest(&mut self) -> Result<(), Interruption> {
        let (changes, calls) = (self.changes.len(), self.wire.state().calls.len());
        let until = Instant::now() + self.plan.scenario.rest();
        while Instant::now() < until {
            self.look()?;
            tokio::time::sleep(LOOK_TIME).await;
        }
        oracle::judge_rest(&self.wire, calls, &self.changes[changes..], "while nothing had changed")?;
        self.wire.note(Actor::Simulator, "kill -9 at rest, to see what a new start writes");
        self.stop_operator().await;
        let (changes, calls) = (self.changes.len(), self.wire.state().calls.len());
        self.start_operator()?;
        let number = self.rests.len();
        self.rest("after a new start").await?;
        self.rests.truncate(number);
        Ok(oracle::judge_rest(&self.wire, calls, &self.changes[changes..], "after a new start at rest")?)
    }

    /// Ends the run and returns its record.
    async fn finish(mut self, outcome: Result<(), Interruption>) -> Result<RunRecord, String> {
        self.stop_operator().await;
        self.note_changes();
        let Self { server, wire, user, changes, rests, watches, output, plan, .. } = self;
        server.stop().await;
        let violations = match outcome {
            Ok(()) => Vec::new(),
            Err(Interruption::Violation(violation)) => vec![violation],
            Err(Interruption::SetUp(why)) if plan.reference.is_none() => {
                return Err(with_output(&why, &output.lines()));
            }
            Err(Interruption::SetUp(why)) => {
                vec![Violation::new("the scenario got stuck", "the scenario", why)]
            }
        };
        let mut state = wire.state();
        Ok(RunRecord {
            violations,
            calls: std::mem::take(&mut state.calls),
            events: std::mem::take(&mut state.events),
            lines: std::mem::take(&mut state.lines),
            done: std::mem::take(&mut state.done),
            changes,
            user_writes: user.writes,
            rests,
            watches,
            output: output.lines(),
        })
    }
}

/// Returns an error together with the end of the command's output.
fn with_output(why: &str, lines: &[String]) -> String {
    /// The number of lines: enough for the last error of most programs.
    const LINES: usize = 15;
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { why.to_owned() } else { format!("{why}; it printed:\n  {}", last.join("\n  ")) }
}
