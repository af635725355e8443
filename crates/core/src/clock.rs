//! Provides the current time. Wall time is a base plus the time that tokio has counted since then, so a test that
//! pauses tokio's clock also controls every timestamp.
//!
//! **Invariant:** this is the only module that reads the machine's clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of wall time. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Timestamp,
    origin: Option<Instant>,
    adjustment: Option<&'static ClockAdjustment>,
}

/// How far a clock has been set forward or back since it was created, for tests and the simulator. It is `'static` so
/// that clocks stay cheap to copy.
#[derive(Debug, Default)]
pub struct ClockAdjustment {
    seconds: AtomicI64,
}

impl ClockAdjustment {
    /// Sets the clock forward by this many seconds, or back if negative.
    pub fn jump(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Sets the clock back to the correct time.
    pub fn reset(&self) {
        self.seconds.store(0, Ordering::Relaxed);
    }
}

impl Clock {
    /// Returns the machine's clock, read each time (so it follows adjustments of that clock).
    pub fn system() -> Self {
        Self { base: Timestamp::UNIX_EPOCH, origin: None, adjustment: None }
    }

    /// Returns a clock that stands at `base` now and moves with tokio's (possibly paused) time. Needs a tokio runtime.
    pub fn virtual_from(base: Timestamp) -> Self {
        Self { base, origin: Some(Instant::now()), adjustment: None }
    }

    /// Returns the same clock, set forward or back by `adjustment`; monotonic time and timers are unaffected.
    #[must_use]
    pub fn adjustable(self, adjustment: &'static ClockAdjustment) -> Self {
        Self { adjustment: Some(adjustment), ..self }
    }

    /// Returns the wall time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        let now = match self.origin {
            None => Timestamp::now(),
            Some(origin) => self.base.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
        };
        let Some(adjustment) = self.adjustment else { return now };
        let seconds = adjustment.seconds.load(Ordering::Relaxed);
        now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now)
    }

    /// Returns the monotonic time, for deadlines and durations.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Returns how long ago `earlier` was.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.instant().saturating_duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_is_behind_in_all_copies() {
        static ADJUSTMENT: ClockAdjustment = ClockAdjustment { seconds: AtomicI64::new(0) };
        let right = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        let wrong = right.adjustable(&ADJUSTMENT);
        let copy = wrong;
        ADJUSTMENT.jump(-900);
        assert_eq!(right.now().duration_since(copy.now()).as_secs(), 900);
        assert_eq!(wrong.now(), copy.now());
        ADJUSTMENT.jump(1800);
        assert_eq!(copy.now().duration_since(right.now()).as_secs(), 900);
        ADJUSTMENT.reset();
        assert_eq!(copy.now(), right.now());
    }
}
