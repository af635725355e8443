//! Decides what happens when nothing is waiting: the user's next step, the end of a part, the long rest, or that time
//! passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Revision;
use homeostat_store::Store;
use tokio::time::Instant;

use super::parking::ProcessNumber;
use super::process::ReconcileOutcome;
use super::record::{PointKind, SettledEnd};
use super::run::{EndPart, RunExtent, ScheduleRun};
use super::watch_streams::OpenWatch;
use crate::fault::Fault;

/// The user performs the next step when nothing has happened for this long.
const STEP_QUIET: Duration = Duration::from_secs(2);

/// The same for elected replicas, after a process started or ended or a lease changed hands: a lease lasts 15 s, and a
/// replica may take it only at its next look, 2 s later.
const ELECTION_QUIET: Duration = Duration::from_secs(18);

/// The first value of [`END_QUIET`] for elected replicas. It is shorter because the simulator must perform every
/// renewal of a lease.
const ELECTION_END_QUIET: Duration = Duration::from_secs(20);

/// The longest rest if leases are used: they are renewed every few seconds, and the simulator performs every renewal.
const LEASE_REST: Duration = Duration::from_secs(600);

/// How long nothing must have been written before an end is compared with the expected one. If it differs, the schedule
/// waits for the next longer time, because a slow retry or a poll may still lead to the expected end. A schedule
/// without faults always waits for the longest time, so that the expected end includes what timers do within the hour.
const END_QUIET: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(6 * 60),
    Duration::from_secs(20 * 60),
    Duration::from_secs(65 * 60),
];

/// After this many operations without a write, an unexpected end is final.
const LOOKS_MAX: u64 = 400;

/// The latest time at which an end must be reached.
const HORIZON: Duration = Duration::from_secs(3 * 3600);

/// The current phase of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Performing steps of the user, or of the clean-up.
    Steps(EndPart),
    /// All steps are done; the number counts how often the end was not the expected one.
    Ending(EndPart, usize),
    /// Everything is done; nothing may be written until this time.
    Resting(Instant),
}

/// What to do next.
pub(crate) enum Move {
    /// Check again whether something is waiting.
    Again,
    /// Nothing is waiting; time passes until then.
    Wait(Instant),
    End,
}

impl ScheduleRun<'_> {
    /// Returns whether the operator should be at rest.
    pub(crate) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting(_))
    }

    /// Decides what to do when nothing is waiting.
    pub(crate) async fn next_move(&mut self) -> Move {
        let now = Instant::now();
        if let Some(until) = self.next_release(now) {
            return Move::Wait(until);
        }
        match self.phase {
            Phase::Steps(part) => {
                let due = self.quiet_from();
                if now < due { Move::Wait(due) } else { self.settled(part).await }
            }
            Phase::Ending(part, tries) => {
                let quiet = match END_QUIET[tries.min(END_QUIET.len() - 1)] {
                    _ if tries == 0 && self.uses_leases => ELECTION_END_QUIET,
                    _ if self.is_undisturbed() => END_QUIET[END_QUIET.len() - 1],
                    quiet => quiet,
                };
                let due = (self.last_write + quiet).max(self.quiet_from());
                let is_late = now >= self.phase_since + HORIZON;
                if now < due && !is_late {
                    return Move::Wait(due.min(self.phase_since + HORIZON));
                }
                self.try_end(part, tries, now < due)
            }
            Phase::Resting(until) if now < until => Move::Wait(until),
            Phase::Resting(_) => {
                self.record.operations_at_rest = self.record.operations - self.operations_before_rest;
                self.enter(Phase::Steps(EndPart::Cleanup));
                Move::Again
            }
        }
    }

    /// Returns when the schedule is at rest, unless something happens before. An operator that must first be elected
    /// takes longer.
    fn quiet_from(&self) -> Instant {
        let quiet = self.last_activity + STEP_QUIET;
        if self.uses_leases { quiet.max(self.last_election + ELECTION_QUIET) } else { quiet }
    }

    /// Returns whether this is a complete schedule without faults.
    fn is_undisturbed(&self) -> bool {
        self.options.plan.is_empty() && self.options.extent == RunExtent::Whole
    }

    fn is_warm_up(&self) -> bool {
        self.options.extent == RunExtent::WarmUp
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_since = Instant::now();
        self.writes_since_step = 0;
        self.note_activity();
    }

    /// Returns when the next silent watch, frozen process or background work of the server continues.
    fn next_release(&self, now: Instant) -> Option<Instant> {
        let holds = self.watches.iter().filter(|watch| !watch.frames.is_empty());
        // A watch that stays silent until the next change of an object must not prevent that change.
        let holds = holds.filter_map(|watch| watch.hold.as_ref().filter(|hold| hold.object.is_none()));
        let holds = holds.map(|hold| hold.until);
        let slow = self.calls.iter().filter_map(|call| call.not_before);
        // The user continues while one replica is frozen, because the other replicas do; the end waits for that
        // replica.
        let is_awaited = self.setup.replicas == 1 || !matches!(self.phase, Phase::Steps(_));
        let frozen = self.processes.iter().filter(|_| is_awaited).filter_map(|process| process.frozen_until);
        holds.chain(slow).chain(frozen).chain(self.background_due).filter(|until| *until > now).min()
    }

    /// Handles a rest: injects its faults, then performs the next step.
    async fn settled(&mut self, part: EndPart) -> Move {
        let done = match self.step {
            0 => "the start".to_owned(),
            step => {
                let last = self.order.get(step - 1).and_then(|number| self.setup.step(*number));
                last.map(|step| step.shown()).unwrap_or_default()
            }
        };
        // An operator whose watch is held back by a fault is not at rest, only waiting.
        let rest = SettledEnd { is_judged: !self.is_watch_silent(), ..self.end_now(true) };
        self.record.rests.push(rest);
        let faults = self.visit(&format!("at rest after {done}"), PointKind::Settled, "");
        let mut is_disturbed = false;
        for fault in faults {
            self.tell("FAULT", true, || format!("at rest after {done}: {}", fault.shown()));
            is_disturbed |= self.disturb_rest(&fault).await;
        }
        if is_disturbed {
            self.note_activity();
            return Move::Again;
        }
        if let Some(step) = self.postponed.take().and_then(|given| self.setup.givens.get(given)) {
            self.perform_postponed(&step.clone()).await;
            self.note_activity();
            return Move::Again;
        }
        let end = match part {
            EndPart::Scenario => self.setup.steps.len(),
            EndPart::Cleanup => self.setup.all_steps(),
        };
        if part == EndPart::Scenario && self.step > end {
            self.enter(Phase::Steps(EndPart::Cleanup));
            return Move::Again;
        }
        if self.step >= end && std::mem::take(&mut self.is_down) {
            self.start_all();
            return Move::Again;
        }
        if self.is_warm_up() || self.step >= end {
            self.enter(Phase::Ending(part, 0));
            return Move::Again;
        }
        self.do_next_step().await;
        if std::mem::take(&mut self.is_down) {
            self.start_all();
        }
        Move::Again
    }

    /// Returns whether the schedule must come to rest again before the next step.
    async fn disturb_rest(&mut self, fault: &Fault) -> bool {
        let numbers = self.tested();
        match fault {
            Fault::Down => {
                for number in numbers {
                    self.kill(number);
                }
                self.is_down = true;
                false
            }
            Fault::SwapSteps => {
                if self.step + 1 < self.order.len() {
                    self.order.swap(self.step, self.step + 1);
                }
                false
            }
            // If an object is created and deleted while the watch is silent, the operator never sees it.
            Fault::DeleteChild { .. } if self.is_watch_silent() => false,
            Fault::DeleteChild { object } => {
                self.delete_child(object).await;
                true
            }
            Fault::CrashAfter | Fault::CrashBefore => self.crash_all(numbers, None),
            Fault::RestartBeforeStep { step } => {
                self.crash_all(numbers, self.step_revisions.get(step - 1).copied())
            }
            Fault::RestartOldOf { resource, step } => {
                let old = self.step_revisions.get(step - 1).copied();
                for number in numbers {
                    self.crash(number, old);
                    if let Some(process) = self.processes.last_mut() {
                        process.old_only = Some(resource.clone());
                    }
                }
                true
            }
            Fault::RestartSkewed { seconds } => {
                for number in numbers {
                    self.crash_skewed(number, *seconds);
                }
                true
            }
            Fault::JumpClock { seconds } => {
                for number in numbers {
                    self.jump_clock(number, *seconds);
                }
                false
            }
            Fault::Drift { changes } => {
                if let Some(outside) = &self.outside {
                    (outside.drift)(*changes);
                }
                true
            }
            Fault::RestartBack { changes } => {
                let first = self.template.snapshot.revision().get();
                let old = self.noted.get().saturating_sub(*changes).max(first);
                self.crash_all(numbers, Some(Revision::new(old)))
            }
            _ => false,
        }
    }

    /// Ends processes and starts them again; the schedule must come to rest again.
    fn crash_all(&mut self, numbers: Vec<ProcessNumber>, old: Option<Revision>) -> bool {
        for number in numbers {
            self.crash(number, old);
        }
        true
    }

    /// Returns whether a watch holds back events, or has expired and has not been reopened.
    fn is_watch_silent(&self) -> bool {
        let is_held = |watch: &OpenWatch| watch.hold.is_some() && !watch.frames.is_empty();
        let is_open = |(process, resource): &(ProcessNumber, Arc<str>)| {
            self.watches.iter().any(|watch| watch.process == *process && watch.resource == *resource)
        };
        let is_alive = |(number, _): &&(ProcessNumber, Arc<str>)| {
            self.processes.iter().any(|process| process.number == *number)
        };
        self.watches.iter().any(is_held)
            || self.expiring.keys().filter(is_alive).any(|expired| !is_open(expired))
    }

    fn try_end(&mut self, part: EndPart, tries: usize, is_late: bool) -> Move {
        if part == EndPart::Scenario && self.step > self.setup.steps.len() {
            self.enter(Phase::Steps(EndPart::Cleanup));
            return Move::Again;
        }
        let mut end = self.end_now(!is_late);
        let is_failing = !end.failing.is_empty();
        let is_accepted = self.options.acceptance.is_none_or(|acceptance| acceptance.accepts(part, &mut end));
        // Renewals of leases make long waits expensive.
        let tries_max = if self.uses_leases { 2 } else { END_QUIET.len() };
        // An operator that has made hundreds of requests without a write will not write any more.
        let has_looked = self.record.operations - self.operations_at_write > LOOKS_MAX;
        let is_last = is_late || tries + 1 >= tries_max || has_looked;
        if (is_failing || !is_accepted) && !is_last {
            self.phase = Phase::Ending(part, tries + 1);
            return Move::Again;
        }
        end.is_reached = !is_late;
        match part {
            EndPart::Scenario => {
                self.record.scenario_end = end;
                if self.is_warm_up() {
                    return Move::End;
                }
                self.rest_or_clean_up()
            }
            EndPart::Cleanup => {
                self.record.cleanup_end = end;
                Move::End
            }
        }
    }

    /// Begins the long rest with a new process, which looks at everything again.
    fn rest_or_clean_up(&mut self) -> Move {
        if self.options.rest.is_zero() {
            self.enter(Phase::Steps(EndPart::Cleanup));
            return Move::Again;
        }
        let numbers = self.tested();
        for number in numbers {
            self.crash(number, None);
        }
        let rest = if self.uses_leases { self.options.rest.min(LEASE_REST) } else { self.options.rest };
        self.operations_before_rest = self.record.operations;
        self.enter(Phase::Resting(Instant::now() + rest));
        Move::Again
    }

    fn end_now(&self, is_reached: bool) -> SettledEnd {
        // Of several replicas the latest outcome counts: a former leader may have failed where its successor has
        // succeeded.
        let mut last: BTreeMap<String, (u64, ReconcileOutcome)> = BTreeMap::new();
        for process in self.processes.iter().filter(|process| process.is_tested()) {
            for (object, outcome) in &process.journal().outcomes {
                if last.get(object).is_none_or(|(place, _)| *place < outcome.0) {
                    last.insert(object.clone(), outcome.clone());
                }
            }
        }
        let (mut failing, mut given_up) = (BTreeMap::new(), BTreeSet::new());
        for (object, (_, outcome)) in last {
            match outcome {
                ReconcileOutcome::Settled => {}
                ReconcileOutcome::Failed(error) => drop(failing.insert(object, error)),
                ReconcileOutcome::GivenUp(error) => {
                    given_up.insert(object.clone());
                    failing.insert(object, error);
                }
            }
        }
        let (snapshot, outside) = (self.store.snapshot(), self.outside_text());
        SettledEnd {
            step: self.step,
            snapshot,
            history: self.server_history.hash(),
            outside,
            is_judged: true,
            is_reached,
            failing,
            given_up,
            differences: None,
        }
    }
}
