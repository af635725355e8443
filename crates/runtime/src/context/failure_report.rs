//! Decides which faults are reported to people, and under which name: a terminal fault, a panic and a conflict over a
//! child's name are reported at once, anything else after the third failure in a row. The condition `Reconciled` and
//! the event follow the same rule; the event also covers objects whose status has no conditions.
//!
//! The following are not reported as events: failures because the API server is unreachable (the object is not to
//! blame, and the event could not be stored), failures after the lease was lost, and faults that the reconciler already
//! warned about.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::events::{EventNote, Severity};
use crate::fault::Fault;
use crate::kind::object::Object;
use crate::rights::declared_writes::WriteVerb;
use crate::shared::ControllerShared;

/// The number of failures in a row after which people are informed; a brief failure is not reported.
const FAILURES_TOLD: u32 = 3;

/// The name of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultName {
    /// Its name as the reason in the condition.
    pub(super) condition: &'static str,
    /// Its name as the reason in the event.
    event: &'static str,
}

/// Returns the name under which a fault is reported after this many failures in a row, if it is reported at all.
pub(super) fn name_of_failure(fault: &Fault, failures: u32) -> Option<FaultName> {
    let failed = |condition| Some(FaultName { condition, event: "ReconcileFailed" });
    match fault {
        fault if fault.is_terminal() => failed("TerminalError"),
        fault if fault.is_panic() => Some(FaultName { condition: "Panicked", event: "ReconcilePanicked" }),
        fault if fault.is_conflict_of_owners() => failed("Conflict"),
        _ if failures.saturating_add(1) >= FAILURES_TOLD => failed("Failing"),
        _ => None,
    }
}

impl ControllerShared {
    /// Returns whether the runtime may write to the status on its own initiative, which it may only if the kind is
    /// custom and has a status.
    pub(crate) fn tells_in_status(&self) -> bool {
        self.cache.info().is_custom && self.may_write_status()
    }

    /// Returns whether the controller declared that it writes the status, or its kind implies it.
    pub(super) fn may_write_status(&self) -> bool {
        self.operator.declared.allows(self.cache.info(), WriteVerb::PatchStatus)
    }

    /// Records an event about a fault on its object, if the fault should be reported after this many consecutive
    /// failures. Repeated events are counted on the first one. A fault that a reconcile returns is reported by the
    /// engine itself.
    pub(crate) fn report_failure(&self, object: &Object, failures: u32, fault: &Fault) {
        if let Some(name) = name_of_failure(fault, failures)
            && !fault.is_told()
            && !fault.is_cut_off()
            && self.leads(&self.cache.info().key_of(object.meta()))
        {
            self.warn_of(self.cache.info().object_reference(object.meta()), name.event, fault.chain());
        }
    }

    /// Records a warning event about an object.
    pub(super) fn warn_of(&self, about: ObjectReference, reason: &str, message: String) {
        let reason = reason.to_owned();
        self.operator.recorder.send_event(EventNote { about, severity: Severity::Warning, reason, message });
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
