//! Sends Events, which people see with `kubectl describe`. Sending an event never waits and never makes a reconcile
//! fail.

use std::sync::atomic::Ordering;

use super::{Context, ReconcileRun};
use crate::events::{EventNote, Severity};
use crate::kind::Kind;

impl<K: Kind> Context<K> {
    /// Records an event about the object. Repeated events are counted on the first one, and floods are dropped. A
    /// reconcile that fails after its own warning does not cause another event about the failure.
    pub fn event(&self, severity: Severity, reason: &str, message: impl Into<String>) {
        self.run.event(severity, reason, message.into());
    }
}

impl ReconcileRun {
    /// Records an event about the object.
    pub(crate) fn event(&self, severity: Severity, reason: &str, message: String) {
        if severity == Severity::Warning {
            self.has_warned.store(true, Ordering::Relaxed);
        }
        let about = self.info().object_reference(self.object.meta());
        self.controller.operator.recorder.send_event(EventNote {
            about,
            severity,
            reason: reason.to_owned(),
            message,
        });
    }

    /// Returns whether this reconcile recorded a warning.
    pub(crate) fn has_warned(&self) -> bool {
        self.has_warned.load(Ordering::Relaxed)
    }
}
