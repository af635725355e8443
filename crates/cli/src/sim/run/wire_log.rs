//! The log of the wire: the operator's requests with their addresses and outcomes, the watch events it was sent, and
//! the timeline for the report. It also knows the operator's process, because faults kill it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::{RequestTarget, Revision};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::Instant;

use super::fault::{Fault, FaultAtAddress};
use super::request_address::{address_of, is_state_write};

/// Which faults are possible for a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTraits {
    /// Whether it names the version it changes, so that a conflict is possible.
    pub(super) has_resource_version: bool,
    /// Whether it accepts any version, so that a stale one is possible.
    pub(super) takes_any_version: bool,
}

/// A request from the operator.
#[derive(Clone, Debug)]
pub(super) struct CallRecord {
    pub(super) at: Duration,
    pub(super) address: String,
    pub(super) target: RequestTarget,
    pub(super) traits: CallTraits,
    /// The revisions of the store before and after; `None` while it is in progress.
    pub(super) before: Revision,
    pub(super) after: Option<Revision>,
}

/// A request that has begun.
pub(super) struct StartedCall {
    index: usize,
    pub(super) fault: Option<Fault>,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    /// The steps of the scenario.
    User,
    Operator,
    /// The server and its controllers.
    Server,
    Simulator,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::User => "you",
            Self::Operator => "operator",
            Self::Server => "server",
            Self::Simulator => "simulator",
        })
    }
}

/// A line of the timeline.
#[derive(Clone, Debug)]
pub(super) struct TimelineLine {
    pub(super) at: Duration,
    pub(super) actor: Actor,
    pub(super) text: String,
    pub(super) is_fault: bool,
}

/// The wire of one run.
pub(super) struct WireLog {
    begun: Instant,
    state: Mutex<WireState>,
}

#[derive(Default)]
pub(super) struct WireState {
    faults: BTreeMap<String, Fault>,
    counts: BTreeMap<String, u32>,
    pub(super) calls: Vec<CallRecord>,
    /// The addresses of watch events, in order.
    pub(super) events: Vec<String>,
    pub(super) lines: Vec<TimelineLine>,
    /// Faults that happened.
    pub(super) done: Vec<FaultAtAddress>,
    pub(super) open_watches: usize,
    /// When a new request was last made or a watch was last opened.
    pub(super) news_at: Option<Instant>,
    pub(super) fault_ends_at: Option<Instant>,
    pub(super) write_ended_at: Option<Instant>,
    outage_until: Option<Instant>,
    pub(super) calls_since_start: usize,
    born: Revision,
    /// The operator's process group while it runs.
    group: Option<Pid>,
    /// Whether the operator was killed, or will be as soon as its process group is known.
    pub(super) is_killed: bool,
}

impl WireLog {
    /// Creates a wire with these faults.
    pub(super) fn new(faults: &[FaultAtAddress]) -> Self {
        let faults = faults.iter().map(|one| (one.at.clone(), one.fault.clone())).collect();
        Self { begun: Instant::now(), state: Mutex::new(WireState { faults, ..WireState::default() }) }
    }

    /// Returns the state, locked.
    pub(super) fn state(&self) -> MutexGuard<'_, WireState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long the run has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the revision up to which a new cluster was written.
    pub(super) fn born(&self) -> Revision {
        self.state().born
    }

    /// Sets the revision up to which a new cluster was written.
    pub(super) fn set_born(&self, born: Revision) {
        self.state().born = born;
    }

    /// Adds a line to the timeline.
    pub(super) fn note(&self, actor: Actor, text: impl Into<String>) {
        let at = self.elapsed();
        self.state().lines.push(TimelineLine { at, actor, text: text.into(), is_fault: false });
    }

    /// Records that a request begins, and returns its fault.
    pub(super) fn begin_call(
        &self,
        target: &RequestTarget,
        traits: CallTraits,
        before: Revision,
    ) -> StartedCall {
        let at = self.elapsed();
        let mut state = self.state();
        let address = state.next_address(&address_of(target));
        let mut fault = state.take_fault(&address, at);
        if let Some(Fault::Outage { .. }) = &fault {
            state.outage_until = state.fault_ends_at;
        }
        if fault.is_none() && state.outage_until.is_some_and(|until| Instant::now() < until) {
            fault = Some(Fault::Refuse { code: 500 });
        }
        state.calls_since_start += 1;
        if address.ends_with(" #1") {
            state.news_at = Some(Instant::now());
        }
        let call = CallRecord { at, address, target: target.clone(), traits, before, after: None };
        state.calls.push(call);
        StartedCall { index: state.calls.len() - 1, fault }
    }

    /// Records how a request ended.
    pub(super) fn end_call(&self, call: &StartedCall, code: u16, after: Revision) {
        let at = self.elapsed();
        let mut state = self.state();
        let Some(record) = state.calls.get_mut(call.index) else { return };
        record.after = Some(after);
        if !is_state_write(&record.target) {
            return;
        }
        let text = if call.fault.is_some() {
            address_of(&record.target)
        } else {
            format!("{} → {code}", address_of(&record.target))
        };
        state.write_ended_at = Some(Instant::now());
        if call.fault.is_none() {
            state.lines.push(TimelineLine { at, actor: Actor::Operator, text, is_fault: false });
        }
    }

    /// Records that a watch event is about to be sent, and returns its fault.
    pub(super) fn begin_event(&self, object: &str) -> Option<Fault> {
        let at = self.elapsed();
        let mut state = self.state();
        let address = state.next_address(&format!("event {object}"));
        state.events.push(address.clone());
        state.take_fault(&address, at)
    }

    /// Returns the fault at this step.
    pub(super) fn begin_step(&self, address: &str) -> Option<Fault> {
        let at = self.elapsed();
        self.state().take_fault(address, at)
    }

    /// Records that a watch was opened or closed.
    pub(super) fn count_watch(&self, is_open: bool) {
        let mut state = self.state();
        if is_open {
            state.open_watches += 1;
            state.news_at = Some(Instant::now());
        } else {
            state.open_watches = state.open_watches.saturating_sub(1);
        }
    }

    /// Records that the operator is about to be started. Its first requests may arrive before its process group is
    /// known.
    pub(super) fn operator_starting(&self) {
        let mut state = self.state();
        (state.group, state.is_killed, state.calls_since_start) = (None, false, 0);
    }

    /// Records the process group of the started operator, and kills it if that was requested in the meantime.
    pub(super) fn operator_started(&self, group: Option<Pid>) {
        let mut state = self.state();
        state.group = group;
        if state.is_killed {
            state.kill_group();
        }
    }

    /// Records that the operator has ended, and returns whether it was killed.
    pub(super) fn operator_ended(&self) -> bool {
        let mut state = self.state();
        state.group = None;
        std::mem::take(&mut state.is_killed)
    }

    /// Kills the operator and everything it started in its process group.
    pub(super) fn kill_operator(&self) {
        let mut state = self.state();
        state.is_killed = true;
        state.kill_group();
    }
}

impl WireState {
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // It may have just ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Returns the name with the number of its occurrences so far.
    fn next_address(&mut self, name: &str) -> String {
        let count = self.counts.entry(name.to_owned()).or_default();
        *count += 1;
        format!("{name} #{count}")
    }

    fn take_fault(&mut self, address: &str, at: Duration) -> Option<Fault> {
        let fault = self.faults.remove(address)?;
        let text = format!("{address}: {fault}");
        let ends_at = Instant::now() + fault.duration();
        self.fault_ends_at = Some(self.fault_ends_at.map_or(ends_at, |other| other.max(ends_at)));
        self.lines.push(TimelineLine { at, actor: Actor::Simulator, text, is_fault: true });
        self.done.push(FaultAtAddress { at: address.to_owned(), fault: fault.clone() });
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::request_address::request_target;
    use super::*;

    #[test]
    fn requests_that_come_before_the_process_is_known_count_and_can_kill_it() {
        let wire = WireLog::new(&[]);
        let target = request_target(&Method::GET, "/api/v1/pods", "", b"");
        wire.operator_starting();
        wire.begin_call(&target, CallTraits::default(), Revision::default());
        wire.kill_operator();
        let mut child = std::process::Command::new("sleep");
        let child = std::os::unix::process::CommandExt::process_group(&mut child, 0).arg("600").spawn();
        let mut child = child.unwrap();
        wire.operator_started(Pid::from_raw(child.id().cast_signed()));
        assert!(!child.wait().unwrap().success(), "it was killed");
        assert_eq!(wire.state().calls_since_start, 1);
        assert!(wire.operator_ended(), "and not by itself");
        wire.operator_starting();
        assert_eq!(wire.state().calls_since_start, 0);
    }
}
