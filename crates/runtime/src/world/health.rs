//! How a world is doing, for metrics and `/readyz`: does its API answer, and when was all of it last seen?
//!
//! A world that is not being watched is told and does not make the operator unready: its Pod can do nothing about an
//! API that is down, and the objects of other worlds go on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::contract::World;
use super::parts::WorldParts;

/// How a world is doing.
#[derive(Clone, Debug)]
pub(crate) struct WorldHealth {
    pub(crate) world: &'static str,
    /// Nothing is sent but probes.
    pub(crate) is_blocked: bool,
    /// Since the last complete pass, or the start.
    pub(crate) age: Duration,
    /// Why the last pass did not end.
    pub(crate) problem: Option<String>,
}

impl WorldHealth {
    /// One line for people: `[!]` is worth a look and not a reason to send nobody here.
    pub(crate) fn line(&self) -> String {
        let (world, age) = (self.world, self.age.as_secs());
        match &self.problem {
            Some(problem) => format!("[!] outside/{world} was last seen whole {age} s ago: {problem}\n"),
            None if self.is_blocked => format!("[!] outside/{world} does not answer\n"),
            None => format!("[+] outside/{world} ok\n"),
        }
    }
}

/// A world that can be asked how it is doing.
pub(crate) trait WorldHealthSource: Send + Sync {
    fn vitals(&self) -> WorldHealth;
}

impl<W: World> WorldHealthSource for WorldParts<W> {
    fn vitals(&self) -> WorldHealth {
        let (age, problem) = self.passes.read();
        WorldHealth { world: W::NAME, is_blocked: !self.limiter.is_closed(), age, problem }
    }
}

/// When the last pass ended well, and what came of the last try.
pub(super) struct Passes(Mutex<(Instant, Option<String>)>);

impl Passes {
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
