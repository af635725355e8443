//! Events: told to people through `kubectl describe`. Sending one never waits and never fails a reconcile.

use std::sync::atomic::Ordering;

use super::{Context, Run};
use crate::events::{Note, Severity};
use crate::kind::Kind;

impl<K: Kind> Context<K> {
    /// Records an event about the object. Repeats are counted instead of repeated, floods are cut. A reconcile that fails
    /// after a warning of its own gets no other about the failure.
    pub fn event(&self, severity: Severity, reason: &str, message: impl Into<String>) {
        self.run.event(severity, reason, message.into());
    }
}

impl Run {
    /// Records an event about the object.
    pub(crate) fn event(&self, severity: Severity, reason: &str, message: String) {
        if severity == Severity::Warning {
            self.has_warned.store(true, Ordering::Relaxed);
        }
        let about = self.info().object_reference(self.object.meta());
        self.engine.shared.recorder.note(Note { about, severity, reason: reason.to_owned(), message });
    }

    /// Did this reconcile leave a warning?
    pub(crate) fn has_warned(&self) -> bool {
        self.has_warned.load(Ordering::Relaxed)
    }
}
