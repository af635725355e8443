//! How the worlds that a controller keeps are doing, as metrics and `/readyz` show it.
//!
//! A world that cannot be watched is reported but does not make the operator unready: its Pod can do nothing about an
//! API that is down, and the objects of other worlds go on.

use std::time::Duration;

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
    /// Describes it in one line for people: `[!]` is worth a look, but does not make the operator unready.
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
    fn health(&self) -> WorldHealth;
}
