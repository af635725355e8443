//! The circuit breaker, sans I/O: consecutive failed calls for objects raise a suspicion, and a probe shows whether the
//! API or the objects are to blame. If the probe also fails, only one probe at a time is sent, so an outage costs a
//! call every minute or two instead of a retry per object.
//!
//! **Invariant:** only a probe confirms an outage, and only a probe can end it: objects that can never succeed cannot
//! stop the others (`tests/it/world/outages.rs`).

use std::time::Duration;

use tokio::time::Instant;

/// When closed, it lets calls pass; when open, it lets one probe pass when its time has come.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    failures_max: u32,
    probe: Duration,
    probe_max: Duration,
    state: BreakerState,
}

#[derive(Debug)]
enum BreakerState {
    /// Calls are allowed; counts the failures in a row. Until `trusted_until`, failures do not count: a probe has just
    /// shown that the objects cause them.
    Closed { failures: u32, trusted_until: Option<Instant> },
    /// Too many failures in a row: a probe is due at once to find the cause.
    Suspected { since: Instant },
    /// A probe failed as well.
    Open { probe_at: Instant, pause: Duration },
}

impl CircuitBreaker {
    pub(super) fn new(failures_max: u32, probe: Duration, probe_max: Duration) -> Self {
        let state = BreakerState::Closed { failures: 0, trusted_until: None };
        Self { failures_max: failures_max.max(1), probe, probe_max, state }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed { .. })
    }

    /// Returns when the next probe may be sent; `None` while calls are allowed.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            BreakerState::Closed { .. } => None,
            BreakerState::Suspected { since } => Some(since),
            BreakerState::Open { probe_at, .. } => Some(probe_at),
        }
    }

    /// Records that a call for an object got a response.
    pub(super) fn succeeded(&mut self) {
        if let BreakerState::Closed { failures, .. } = &mut self.state {
            *failures = 0;
        }
    }

    /// Records that a call for an object got no response. Returns whether this raised the suspicion.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let BreakerState::Closed { failures, trusted_until } = &mut self.state else { return false };
        if trusted_until.is_some_and(|until| now < until) {
            return false;
        }
        *failures += 1;
        let is_enough = *failures >= self.failures_max;
        if is_enough {
            self.state = BreakerState::Suspected { since: now };
        }
        is_enough
    }

    /// Records that the API responded to a probe.
    pub(super) fn probe_succeeded(&mut self, now: Instant) {
        let trusted_until = match self.state {
            BreakerState::Closed { trusted_until, .. } => trusted_until,
            // At most one probe is sent in this time: objects that always fail must not cause a stream of lists.
            BreakerState::Suspected { .. } => Some(now + self.probe),
            BreakerState::Open { .. } => None,
        };
        self.state = BreakerState::Closed { failures: 0, trusted_until };
    }

    /// Records that a probe got no response. Without failing objects, this alone does not stop any calls.
    pub(super) fn probe_failed(&mut self, now: Instant) {
        let pause = match self.state {
            BreakerState::Closed { .. } => return,
            BreakerState::Suspected { .. } => self.probe,
            BreakerState::Open { pause, .. } => (pause * 2).min(self.probe_max),
        };
        self.state = BreakerState::Open { probe_at: now + pause, pause };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> CircuitBreaker {
        CircuitBreaker::new(3, 5 * SECOND, 12 * SECOND)
    }

    #[test]
    fn failures_in_a_row_raise_a_suspicion_and_a_probe_confirms_it() {
        let start = Instant::now();
        let mut breaker = breaker();
        breaker.failed(start);
        breaker.succeeded(); // The count starts again.
        let is_raised = [0, 1, 2, 3].map(|at| breaker.failed(start + at * SECOND));
        assert_eq!(is_raised, [false, false, true, false], "once");
        assert_eq!(breaker.probe_at(), Some(start + 2 * SECOND), "at once");
        let mut probe = |at: u32, next: u32| {
            breaker.probe_failed(start + at * SECOND);
            assert!(!breaker.failed(start + at * SECOND), "a late answer moves nothing");
            breaker.succeeded();
            assert_eq!(breaker.probe_at(), Some(start + next * SECOND));
        };
        probe(2, 7);
        probe(7, 17); // Twice the pause.
        probe(17, 29); // Never more than the longest.
        breaker.probe_succeeded(start + 29 * SECOND);
        assert!(breaker.is_closed());
    }

    #[test]
    fn a_probe_that_succeeds_makes_the_api_trusted_for_a_while() {
        let start = Instant::now();
        let mut breaker = breaker();
        let mut fail = |at: u32| (0..3).any(|_| breaker.failed(start + at * SECOND));
        assert!(fail(0));
        breaker.probe_succeeded(start);
        let mut fail = |at: u32| (0..3).any(|_| breaker.failed(start + at * SECOND));
        assert!(!fail(4), "these are the objects' own");
        assert!(fail(5), "and then it is asked again");
    }

    #[test]
    fn a_list_that_fails_stops_nobody() {
        let mut breaker = breaker();
        (0..9).for_each(|_| breaker.probe_failed(Instant::now()));
        assert!(breaker.is_closed());
    }
}
