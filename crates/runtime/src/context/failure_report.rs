//! Which faults people are told of, and under which name: a terminal one, a panic and a child's name that is taken from
//! the first time on, anything else from its third time in a row. The condition `Reconciled` and the event go by the same
//! rule; the event also reaches objects whose status has no place for conditions.
//!
//! Not told as events: what fails because the API server is away, which is not the object's fault and has nobody to
//! keep the event, what happens after the lease is lost, and what the reconciler warned of in its own words.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::declared::WriteVerb;
use crate::engine::Engine;
use crate::events::{Note, Severity};
use crate::fault::Fault;
use crate::object::Object;

/// From this failure in a row on people are told: a blip is not.
const FAILURES_TOLD: u32 = 3;

/// What a fault is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// As the reason of the condition.
    pub(super) condition: &'static str,
    /// As the reason of the event.
    event: &'static str,
}

/// The name under which a fault is told after so many failures in a row, if it is.
pub(super) fn name_of_failure(fault: &Fault, failures: u32) -> Option<Name> {
    let failed = |condition| Some(Name { condition, event: "ReconcileFailed" });
    match fault {
        fault if fault.is_terminal() => failed("TerminalError"),
        fault if fault.is_panic() => Some(Name { condition: "Panicked", event: "ReconcilePanicked" }),
        fault if fault.is_conflict_of_owners() => failed("Conflict"),
        _ if failures.saturating_add(1) >= FAILURES_TOLD => failed("Failing"),
        _ => None,
    }
}

impl Engine {
    /// Is the status of the kind ours to say something in that its reconciler did not ask for? Only if it is a kind of
    /// somebody's own that has one.
    pub(crate) fn tells_in_status(&self) -> bool {
        self.cache.info().is_custom && self.may_write_status()
    }

    /// Has the controller declared, or does its kind mean, that the status is written?
    pub(super) fn may_write_status(&self) -> bool {
        self.shared.declared.has(self.cache.info(), WriteVerb::PatchStatus)
    }

    /// Leaves an event about a fault on its object, if it is one to be told after so many failures in a row. Repeats are
    /// counted on the first event. A fault that a reconcile returns is told by the engine itself.
    pub(crate) fn report_failure(&self, object: &Object, failures: u32, fault: &Fault) {
        if let Some(name) = name_of_failure(fault, failures)
            && !fault.is_told()
            && !fault.is_cut_off()
            && self.is_admitted(&self.cache.info().key_of(object.meta()))
        {
            self.warn_of(self.cache.info().object_reference(object.meta()), name.event, fault.chain());
        }
    }

    /// Leaves an event with a warning about an object.
    pub(super) fn warn_of(&self, about: ObjectReference, reason: &str, message: String) {
        let reason = reason.to_owned();
        self.shared.recorder.note(Note { about, severity: Severity::Warning, reason, message });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{retry_after, terminal};

    #[test]
    fn what_is_told_and_when() {
        let busy = || retry_after(Duration::from_secs(1), "busy");
        for (fault, failures, expected) in [
            (terminal("no"), 0, Some("ReconcileFailed")),
            (Fault::panic("over".into()), 0, Some("ReconcilePanicked")),
            ("odd".into(), 1, None),
            ("odd".into(), 2, Some("ReconcileFailed")),
            (busy(), 1, None),
            (busy(), u32::MAX, Some("ReconcileFailed")),
        ] {
            assert_eq!(
                name_of_failure(&fault, failures).map(|name| name.event),
                expected,
                "{fault} after {failures}"
            );
        }
    }
}
