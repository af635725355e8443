//! Summarizes the outcomes for the external resources of one object, sans I/O, into one condition, one action, and the
//! facts to remember.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::call_limiter::CallStopped;
use super::failure::Failure;
use crate::context::condition;

/// The condition that says whether the external resources match the object's spec.
pub(super) const SYNCED: &str = "Synced";

/// The reason used when others changed a resource that was in sync, and the change is left uncorrected.
pub(super) const DRIFTED: &str = "Drifted";

/// The reason used when the API accepts our updates without applying them.
pub(super) const NOT_TAKEN: &str = "NotTaken";

/// The reason used when our updates keep being undone.
pub(super) const CONTESTED: &str = "Contested";

/// The reason used when the external API did not respond.
pub(super) const UNAVAILABLE: &str = "Unavailable";

/// The reason used when the external API refused our last write.
pub(super) const REFUSED: &str = "Refused";

/// The reason used when there is nothing to do but wait and check again.
pub(super) const SETTLING: &str = "Settling";

/// The outcome for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceOutcome {
    /// It matches the spec, as we have read.
    Seen,
    /// It matches the spec, because our write was accepted.
    Written,
    /// It is gone, or not ours to change.
    Gone,
    /// It is to be checked again after this time.
    Waiting(Duration),
    /// It is not ours.
    Conflict(String),
    /// It differs from the spec and is left unchanged.
    Drifted(String),
    /// It differs from the spec whatever we do, with this reason and message. It is tried again after this time.
    Endured { reason: &'static str, how: String, after: Duration },
}

/// The outcomes for all resources.
#[derive(Debug, Default)]
pub(super) struct ResourceOutcomes {
    seen: Vec<String>,
    waiting: Option<Duration>,
    conflicts: Vec<String>,
    drifts: Vec<String>,
    endured: Vec<(&'static str, String)>,
    failure: Option<CallStopped>,
}

/// The consequence for the object.
#[derive(Debug)]
pub(super) enum RunSummary {
    Done,
    /// Reconcile again after this time.
    Again(Duration),
    /// Someone else must act first; reconcile again when the next pass finds a reason, or after the poll period.
    Stuck,
    /// Wait until the external API responds.
    Blocked,
    Failed(CallStopped),
}

impl ResourceOutcomes {
    pub(super) fn add_outcome(&mut self, name: &str, result: Result<ResourceOutcome, CallStopped>) {
        match result {
            Ok(ResourceOutcome::Seen) => self.seen.push(name.to_owned()),
            Ok(ResourceOutcome::Written | ResourceOutcome::Gone) => {}
            Ok(ResourceOutcome::Waiting(after)) => self.wait(after),
            Ok(ResourceOutcome::Conflict(whom)) => self.conflicts.push(format!("{name} belongs to {whom}")),
            Ok(ResourceOutcome::Drifted(how)) => self.drifts.push(format!("{name}: {how}")),
            Ok(ResourceOutcome::Endured { reason, how, after }) => {
                self.wait(after);
                self.endured.push((reason, format!("{name}: {how}")));
            }
            Err(stopped) => {
                self.failure.get_or_insert(stopped);
            }
        }
    }

    fn wait(&mut self, after: Duration) {
        self.waiting = Some(self.waiting.map_or(after, |before| before.min(after)));
    }

    /// Returns whether nothing more can be done in this run.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.failure, Some(CallStopped::Blocked(_)))
    }

    /// Returns the condition to write; `None` if nothing is certain.
    pub(super) fn condition(&self) -> Option<Condition> {
        let bad = |reason, message: String| Some(out_of_sync(reason, message));
        match &self.failure {
            Some(CallStopped::Failed(Failure::Refused(error))) => return bad(REFUSED, error.to_string()),
            Some(CallStopped::Failed(failure @ (Failure::Unavailable(_) | Failure::Busy(_)))) => {
                return bad(UNAVAILABLE, failure.to_string());
            }
            Some(CallStopped::Blocked(why)) => return bad(UNAVAILABLE, why.clone()),
            Some(CallStopped::Failed(Failure::Exists) | CallStopped::Cluster(_)) => return None,
            None => {}
        }
        if !self.conflicts.is_empty() {
            bad("Conflict", self.conflicts.join("; "))
        } else if let Some((reason, _)) = self.endured.first() {
            let words: Vec<&str> = self.endured.iter().map(|(_, words)| words.as_str()).collect();
            bad(reason, words.join("; "))
        } else if !self.drifts.is_empty() {
            bad(DRIFTED, self.drifts.join("; "))
        } else if self.waiting.is_some() {
            bad(SETTLING, "the API outside may not show our last writes yet".to_owned())
        } else {
            Some(in_sync())
        }
    }

    /// Returns the names seen, and the consequence.
    pub(super) fn sum(self) -> (Vec<String>, RunSummary) {
        let sum = match (self.failure, self.waiting) {
            (Some(CallStopped::Blocked(_)), _) => RunSummary::Blocked,
            (Some(stopped), _) => RunSummary::Failed(stopped),
            (None, Some(after)) => RunSummary::Again(after),
            (None, None) if self.conflicts.is_empty() && self.drifts.is_empty() => RunSummary::Done,
            (None, None) => RunSummary::Stuck,
        };
        (self.seen, sum)
    }
}

/// Returns the condition of an object whose resources all match its spec.
pub(super) fn in_sync() -> Condition {
    condition(SYNCED, true, "InSync", "")
}

/// Returns the condition of an object whose resources differ from its spec, or whose spec is invalid.
pub(super) fn out_of_sync(reason: &str, why: impl Into<String>) -> Condition {
    condition(SYNCED, false, reason, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(states: &[ResourceOutcome], reason: &str, sum: &str) {
        let mut tally = ResourceOutcomes::default();
        for state in states {
            tally.add_outcome("x", Ok(state.clone()));
        }
        assert_eq!(tally.condition().unwrap().reason, reason);
        assert_eq!(format!("{:?}", tally.sum().1), sum);
    }

    #[test]
    fn the_worst_is_told() {
        let second = Duration::from_secs(1);
        check(&[], "InSync", "Done");
        check(&[ResourceOutcome::Seen, ResourceOutcome::Written, ResourceOutcome::Gone], "InSync", "Done");
        check(
            &[ResourceOutcome::Waiting(3 * second), ResourceOutcome::Waiting(second)],
            "Settling",
            "Again(1s)",
        );
        check(&[ResourceOutcome::Drifted("red".into()), ResourceOutcome::Seen], "Drifted", "Stuck");
        let endured = ResourceOutcome::Endured { reason: NOT_TAKEN, how: "red".into(), after: 9 * second };
        check(
            &[endured, ResourceOutcome::Drifted("red".into()), ResourceOutcome::Waiting(second)],
            "NotTaken",
            "Again(1s)",
        );
        check(
            &[ResourceOutcome::Conflict("me".into()), ResourceOutcome::Drifted("red".into())],
            "Conflict",
            "Stuck",
        );
    }

    #[test]
    fn who_is_at_fault_is_told() {
        let mut tally = ResourceOutcomes::default();
        tally.add_outcome("x", Err(CallStopped::Blocked("the API outside does not answer: gone".into())));
        assert!(tally.is_blocked());
        assert_eq!(tally.condition().unwrap().reason, UNAVAILABLE);
        let mut tally = ResourceOutcomes::default();
        tally.add_outcome("x", Err(CallStopped::Failed(Failure::refused("too red"))));
        assert_eq!(tally.condition().unwrap().message, "too red");
    }
}
