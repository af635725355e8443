//! Starts and ends processes of the operator.

use std::sync::Arc;

use homeostat_core::{Clock, Entropy, Revision};
use jiff::SignedDuration;
use tokio::time::Instant;

use super::parking::ProcessNumber;
use super::process::{Process, ProcessRole};
use super::process_clock::ProcessClock;
use super::run::{REAL_IO, ScheduleRun};
use super::setup::ProcessStart;
use super::wire::Wire;
use crate::alarm::Alarm;
use crate::fault::Fault;
use crate::trace::Deviation;

impl ScheduleRun<'_> {
    /// Starts all replicas of the operator under test.
    pub(crate) fn start_all(&mut self) {
        for replica in 0..self.setup.replicas {
            self.start_process(ProcessRole::Tested(replica), None);
        }
    }

    /// Returns the processes of the operator under test.
    pub(crate) fn tested(&self) -> Vec<ProcessNumber> {
        self.processes.iter().filter(|process| process.is_tested()).map(|process| process.number).collect()
    }

    /// Starts an operator.
    pub(crate) fn start_process(&mut self, role: ProcessRole, old: Option<Revision>) {
        self.start_on(role, old, 0);
    }

    /// Starts an operator on a machine whose clock is ahead by this many seconds.
    fn start_on(&mut self, role: ProcessRole, old: Option<Revision>, skew: i64) {
        self.processes_started += 1;
        let number = ProcessNumber(self.processes_started);
        let start = ProcessStart {
            process: number,
            parking: Arc::clone(&self.parking),
            outside: self.outside.as_ref().map(|outside| Arc::clone(&outside.twin)),
        };
        let operator = match role {
            ProcessRole::Tested(_) => (self.setup.make)(&start),
            ProcessRole::Beside(at) => (self.setup.beside[at])(&start),
        };
        let entropy = Entropy::seeded(self.options.seed.wrapping_mul(31).wrapping_add(u64::from(number.0)));
        // With limited rights, the server must be asked each time.
        let start_answers = match self.options.identity {
            Some(_) => Arc::default(),
            None => Arc::clone(&self.template.start_answers),
        };
        let wire = Wire { process: number, parking: Arc::clone(&self.parking), start_answers };
        let listening = (self.options.is_told, Arc::clone(&self.outcome_order));
        let clock = if skew == 0 {
            self.clock
        } else {
            Clock::virtual_from(self.clock.now() + SignedDuration::from_secs(skew))
        };
        let jumps = |deviation: &Deviation| matches!(deviation.fault, Fault::JumpClock { .. });
        let process_clock = self.options.plan.iter().any(jumps).then(ProcessClock::take);
        let clock = process_clock.as_ref().map_or(clock, |process_clock| process_clock.clock(clock));
        let mut process = Process::start((wire, role), operator, (clock, entropy), listening);
        process.old = old;
        process.clock = process_clock;
        self.processes.push(process);
        self.last_election = Instant::now();
        self.note_activity();
        let state = old.map(|revision| format!("; its caches begin with the state of r{revision}"));
        let clock = if skew == 0 { String::new() } else { format!("; its clock is wrong by {skew}s") };
        let name = self.shown_process(number);
        self.tell(&name, false, || format!("starts{}{clock}", state.unwrap_or_default()));
    }

    /// Returns the name of a process in the timeline: `operator`, `operator/1` if there are several, `operator (start
    /// 2)` after a crash.
    pub(crate) fn shown_process(&self, number: ProcessNumber) -> String {
        let role = self.processes.iter().find(|process| process.number == number).map(|process| process.role);
        let name = match role {
            Some(ProcessRole::Tested(_)) if self.setup.replicas == 1 => "operator".to_owned(),
            Some(ProcessRole::Tested(replica)) => format!("operator/{replica}"),
            Some(ProcessRole::Beside(at)) => return format!("beside/{at}"),
            None => "operator".to_owned(),
        };
        let first = self.setup.replicas as usize + self.setup.beside.len();
        let start = (number.0 as usize).saturating_sub(first);
        if start == 0 { name } else { format!("{name} (start {})", start + 1) }
    }

    /// Kills a process. Nothing it does has any effect afterwards.
    pub(crate) fn kill(&mut self, number: ProcessNumber) -> Option<ProcessRole> {
        self.tell_journals();
        let at = self.processes.iter().position(|process| process.number == number)?;
        let process = self.processes.remove(at);
        process.task.abort();
        self.keep_journal(&process);
        self.calls.retain(|call| call.process != number);
        self.watches.retain(|watch| watch.process != number);
        self.last_election = Instant::now();
        self.note_activity();
        Some(process.role)
    }

    /// Kills a process and starts it again.
    pub(crate) fn crash(&mut self, number: ProcessNumber, old: Option<Revision>) {
        if let Some(role) = self.kill(number) {
            self.start_process(role, old);
        }
    }

    /// Kills a process and starts it again on a machine whose clock is ahead by this many seconds.
    pub(crate) fn crash_skewed(&mut self, number: ProcessNumber, seconds: i64) {
        if let Some(role) = self.kill(number) {
            self.start_on(role, None, seconds);
        }
    }

    /// Sets the clock of a running process forward, or back if negative, by this many seconds.
    pub(crate) fn jump_clock(&mut self, number: ProcessNumber, seconds: i64) {
        if let Some(clock) = self.process(number).and_then(|process| process.clock.as_ref()) {
            clock.jump(seconds);
        }
    }

    pub(super) fn keep_journal(&mut self, process: &Process) {
        let panics = std::mem::take(&mut process.journal().panics);
        self.record.alarms.extend(panics.iter().map(|panic| alarm_about(panic)));
    }
}

/// Returns the alarm for a panic. The tokio runtime of a schedule has no I/O, and panics if some is requested.
fn alarm_about(panic: &str) -> Alarm {
    if panic.contains("IO is disabled") || panic.contains("no reactor running") {
        let text = format!("the operator does real I/O, which does not repeat: {panic}");
        return Alarm::new("deterministic", "operator", text).hint(REAL_IO);
    }
    Alarm::new("no panic", "operator", format!("the operator panicked: {panic}"))
}
