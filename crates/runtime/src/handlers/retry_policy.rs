//! Decides what follows a failed attempt of a handler, without I/O: whether there is another one, and when.
//!
//! Attempts are counted per state of the object: an edit resets the count. A handler gives up after a terminal error,
//! after its last attempt, and when its time is up; after that, only an edit makes it run again.

use std::time::Duration;

use homeostat_core::Entropy;
use jiff::Timestamp;

use super::authored_state::Fingerprint;
use super::handled_condition::shorten_error;
use super::record::FailedAttempts;
use crate::fault::Fault;
use crate::queue::{Backoff, Outcome};

/// How long and how often a handler is retried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryPolicy {
    /// How often it is called again in one state; unlimited if absent.
    pub(super) retries: Option<u32>,
    /// The time limit, counted from the first attempt; unlimited if absent.
    pub(super) timeout: Option<Duration>,
    pub(super) backoff: Backoff,
}

/// One failed attempt.
#[derive(Clone, Copy)]
pub(super) struct Failure<'a> {
    /// The state in which it occurred.
    pub(super) at: Fingerprint,
    pub(super) began: Timestamp,
    pub(super) now: Timestamp,
    pub(super) fault: &'a Fault,
}

impl RetryPolicy {
    /// Returns the attempts so far, including this one, and the time of the next one.
    pub(super) fn next_attempt(
        &self,
        before: Option<&FailedAttempts>,
        failure: Failure<'_>,
        entropy: &Entropy,
    ) -> FailedAttempts {
        let attempts = before.map_or(0, |trial| trial.attempts).saturating_add(1);
        let since = before.map_or(failure.began, |trial| trial.since);
        let delay = match failure.fault.outcome() {
            Outcome::Terminal => None,
            Outcome::RetryAfter(delay) => Some(delay),
            _ => Some(self.backoff.delay(attempts, entropy)),
        };
        let is_last = self.retries.is_some_and(|most| attempts > most);
        let after = delay.filter(|_| !is_last).map(|delay| add_saturating(failure.now, delay));
        let in_time = |next: &Timestamp| self.deadline(since).is_none_or(|deadline| *next < deadline);
        let error = shorten_error(&failure.fault.chain());
        FailedAttempts { at: failure.at, attempts, since, after: after.filter(in_time), error }
    }

    /// Returns when the handler runs out of time.
    pub(super) fn deadline(&self, since: Timestamp) -> Option<Timestamp> {
        self.timeout.map(|timeout| add_saturating(since, timeout))
    }
}

/// Returns `now + after`, or the latest possible time.
pub(super) fn add_saturating(now: Timestamp, after: Duration) -> Timestamp {
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// Returns `later - earlier`, or zero if that is negative.
pub(super) fn duration_between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fault::{retry_after, terminal};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Fails at these times, in seconds; returns the delay after each failure.
    fn fail(policy: RetryPolicy, fault: impl Fn() -> Fault, seconds: &[i64]) -> Vec<Option<i64>> {
        let mut trial: Option<FailedAttempts> = None;
        let state = Fingerprint::of_value(&json!(1));
        let judge = |&second: &i64| {
            let fault = fault();
            let failure = Failure { at: state, began: at(second), now: at(second), fault: &fault };
            trial = Some(policy.next_attempt(trial.as_ref(), failure, &Entropy::seeded(1)));
            trial.as_ref().and_then(|trial| trial.after).map(|next| next.as_second() - second)
        };
        seconds.iter().map(judge).collect()
    }

    #[test]
    fn backoff_delays_and_ends() {
        let policy = RetryPolicy { backoff: Backoff::default().jitter(0.0), ..RetryPolicy::default() };
        assert_eq!(fail(policy, || "no".into(), &[0, 10, 20]), [Some(1), Some(2), Some(4)]);
        let few = RetryPolicy { retries: Some(2), ..policy };
        assert_eq!(fail(few, || "no".into(), &[0, 10, 20]), [Some(1), Some(2), None]);
        let short = RetryPolicy { timeout: Some(Duration::from_secs(12)), ..policy };
        assert_eq!(fail(short, || "no".into(), &[0, 5, 9]), [Some(1), Some(2), None]);
        assert_eq!(fail(policy, || retry_after(Duration::from_secs(7), "busy"), &[0, 9]), [Some(7), Some(7)]);
        assert_eq!(fail(policy, || terminal("never"), &[0]), [None]);
    }
}
