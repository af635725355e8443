//! What time it is. Wall time is a base plus the time tokio counted since, so a test that pauses tokio's clock also
//! owns every timestamp.
//!
//! **Invariant:** this is the only module that reads the machine's clocks.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A source of wall time. Cheap to copy; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Timestamp,
    origin: Option<Instant>,
}

impl Clock {
    /// Returns the machine's clock, read anew each time (it follows clock adjustments).
    pub fn system() -> Self {
        Self { base: Timestamp::UNIX_EPOCH, origin: None }
    }

    /// Returns a clock that stands at `base` now and moves with tokio's (possibly paused) time. Needs a tokio runtime.
    pub fn virtual_from(base: Timestamp) -> Self {
        Self { base, origin: Some(Instant::now()) }
    }

    /// Returns the wall time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        match self.origin {
            None => Timestamp::now(),
            Some(origin) => self.base.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
        }
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
