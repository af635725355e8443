//! Reports the health of a controller's worlds in metrics and in `/readyz`.
//!
//! A world that cannot be surveyed is reported but does not make the operator unready: the Pod cannot do anything about
//! an API that is down, and the objects of other worlds are not affected.

use std::time::Duration;

/// The health of a world.
#[derive(Clone, Debug)]
pub(crate) struct WorldHealth {
    pub(crate) world: &'static str,
    /// Whether only probes are sent.
    pub(crate) is_blocked: bool,
    /// The time since the last complete pass, or since the start.
    pub(crate) age: Duration,
    /// Why the last pass did not complete.
    pub(crate) problem: Option<String>,
}

impl WorldHealth {
    /// Describes it in one line for people: `[!]` marks a problem that is worth a look but does not make the operator
    /// unready.
    pub(crate) fn line(&self) -> String {
        let (world, age) = (self.world, self.age.as_secs());
        match &self.problem {
            Some(problem) => format!("[!] outside/{world} was last seen whole {age} s ago: {problem}\n"),
            None if self.is_blocked => format!("[!] outside/{world} does not answer\n"),
            None => format!("[+] outside/{world} ok\n"),
        }
    }
}

/// A world that reports its health.
pub(crate) trait WorldHealthSource: Send + Sync {
    fn health(&self) -> WorldHealth;
}
