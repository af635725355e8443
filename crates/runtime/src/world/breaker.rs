//! The circuit breaker, sans I/O: after some failures in a row nothing is sent but one probe at a time, so an outage
//! costs a call every minute or two and not a retry per object.

use std::time::Duration;

use tokio::time::Instant;

/// Closed lets calls pass; open lets one probe pass when its time has come.
#[derive(Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    probe: Duration,
    probe_max: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { probe_at: Instant, pause: Duration },
}

impl Breaker {
    pub(super) fn new(failures_max: u32, probe: Duration, probe_max: Duration) -> Self {
        Self { failures_max: failures_max.max(1), probe, probe_max, state: State::Closed { failures: 0 } }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// When the next probe may be sent; none while calls pass.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { probe_at, .. } => Some(probe_at),
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    pub(super) fn failed(&mut self, now: Instant) {
        let open = |pause: Duration| State::Open { probe_at: now + pause, pause };
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < self.failures_max => {
                State::Closed { failures: failures + 1 }
            }
            State::Closed { .. } => open(self.probe),
            // Calls that were under way when it opened fail late: they must not push the probe away.
            State::Open { probe_at, pause } if now < probe_at => State::Open { probe_at, pause },
            State::Open { pause, .. } => open((pause * 2).min(self.probe_max)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_with_a_probe() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut breaker = Breaker::new(3, 5 * second, 12 * second);
        breaker.failed(start);
        breaker.succeeded(); // The count starts again.
        let is_closed = [0, 1, 2].map(|at| {
            breaker.failed(start + at * second);
            breaker.is_closed()
        });
        assert_eq!(is_closed, [true, true, false]);
        assert_eq!(breaker.probe_at(), Some(start + 7 * second));
        breaker.failed(start + 3 * second);
        assert_eq!(breaker.probe_at(), Some(start + 7 * second), "a late answer moves nothing");
        breaker.failed(start + 7 * second);
        assert_eq!(breaker.probe_at(), Some(start + 17 * second), "twice the pause");
        breaker.failed(start + 17 * second);
        assert_eq!(breaker.probe_at(), Some(start + 29 * second), "never more than the longest");
        breaker.succeeded();
        assert!(breaker.is_closed());
    }
}
