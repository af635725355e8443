//! Events: told to people through `kubectl describe`. Sending one never waits and never fails a reconcile.

use std::sync::atomic::Ordering;

use kube::Resource;

use super::Context;
use crate::events::{Note, Severity};
use crate::kind::Kind;

impl<K: Kind> Context<K> {
    /// Records an event about the object. Repeats are counted instead of repeated, floods are cut. A reconcile that fails
    /// after a warning of its own gets no other about the failure.
    pub fn event(&self, severity: Severity, reason: &str, message: impl Into<String>) {
        if severity == Severity::Warning {
            self.0.has_warned.store(true, Ordering::Relaxed);
        }
        let ground = &self.0.engine.ground;
        ground.recorder.note(Note {
            about: Resource::object_ref(&*self.0.object, &()),
            severity,
            reason: reason.to_owned(),
            message: message.into(),
        });
    }

    /// Did this reconcile leave a warning?
    pub(crate) fn has_warned(&self) -> bool {
        self.0.has_warned.load(Ordering::Relaxed)
    }
}
