//! The clock of one process, which can be set forward and back while it runs.
//!
//! Clocks are copied everywhere, so their adjustments are static. A finished process returns its adjustment for reuse,
//! so there are only as many as were ever needed at the same time.

use std::sync::{Mutex, PoisonError};

use homeostat_core::{Clock, ClockAdjustment};

static UNUSED: Mutex<Vec<&'static ClockAdjustment>> = Mutex::new(Vec::new());

/// Sets the clock of one process.
pub(crate) struct ProcessClock {
    adjustment: &'static ClockAdjustment,
}

impl ProcessClock {
    /// Takes an unused clock.
    pub(crate) fn take() -> Self {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { adjustment: unused.unwrap_or_else(|| Box::leak(Box::default())) }
    }

    /// Returns the clock that it sets.
    pub(crate) fn clock(&self, right: Clock) -> Clock {
        right.adjustable(self.adjustment)
    }

    /// Sets the clock forward, or back if negative, by this many seconds.
    pub(crate) fn jump(&self, seconds: i64) {
        self.adjustment.jump(seconds);
    }
}

impl Drop for ProcessClock {
    fn drop(&mut self) {
        self.adjustment.reset();
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self.adjustment);
    }
}
