//! Tracks the health of a world: whether its API responds, and when it was last listed completely. Metrics and
//! `/readyz` show it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::world_parts::WorldParts;
use super::world_trait::World;
use crate::controller::world_health::{WorldHealth, WorldHealthSource};

impl<W: World> WorldHealthSource for WorldParts<W> {
    fn health(&self) -> WorldHealth {
        let (age, problem) = self.passes.read();
        WorldHealth { world: W::NAME, is_blocked: !self.limiter.is_closed(), age, problem }
    }
}

/// When the last pass succeeded, and the result of the last attempt.
pub(super) struct PassHistory(Mutex<(Instant, Option<String>)>);

impl PassHistory {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), None)))
    }

    pub(super) fn ended(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), None);
    }

    pub(super) fn failed(&self, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(why);
    }

    fn read(&self) -> (Duration, Option<String>) {
        let passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (passes.0.elapsed(), passes.1.clone())
    }
}
