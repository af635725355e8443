//! Decides which failures of a watch are reported: each reason once, and then the recovery. The journal and the metrics
//! record every attempt.
//!
//! A broken connection alone is not reported: the next attempt, half a second later, either succeeds or fails with a
//! reason, and that is the log line that people need.

use std::collections::BTreeSet;

/// How many different reasons are reported in one outage. A server that words every error differently must not fill the
/// log.
const REASONS_MAX: usize = 4;

/// The outage of one watch, from its first failure until its recovery; empty while all is well.
#[derive(Debug, Default)]
pub(crate) struct Outage(BTreeSet<String>);

impl Outage {
    /// Records a failed attempt and returns whether to report it. `is_break` says that an open connection was lost, for
    /// the first time since any data arrived over it.
    pub(crate) fn fails(&mut self, reason: &str, is_break: bool) -> bool {
        !is_break && self.0.len() < REASONS_MAX && self.0.insert(reason.to_owned())
    }

    /// Records that the watch is up to date again and returns whether to report it.
    pub(crate) fn ends(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_and_so_is_the_return() {
        let mut outage = Outage::default();
        assert!(!outage.ends(), "nothing was wrong");
        assert!(!outage.fails("it broke off", true) && !outage.ends(), "a blip is no news");
        assert!(!outage.fails("it broke off", true) && outage.fails("refused", false));
        assert!(!outage.fails("refused", false), "known");
        assert!(outage.fails("forbidden", false) && outage.ends() && !outage.ends());
        assert!(outage.fails("refused", false), "another outage");
    }

    #[test]
    fn a_server_that_never_says_the_same_is_told_a_few_times() {
        let mut outage = Outage::default();
        let told = (0..100).filter(|number| outage.fails(&format!("request {number} failed"), false));
        assert_eq!(told.count(), REASONS_MAX);
    }
}
