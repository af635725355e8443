//! Events: told to people through `kubectl describe`. Sending one never waits and never fails a reconcile.

use kube::Resource;

use super::Context;
use crate::events::{Note, Severity};
use crate::kind::Kind;

impl<K: Kind> Context<K> {
    /// Records an event about the object. Repeats are counted instead of repeated, floods are cut.
    pub fn event(&self, severity: Severity, reason: &str, message: impl Into<String>) {
        let ground = &self.0.engine.ground;
        ground.recorder.note(Note {
            about: Resource::object_ref(&*self.0.object, &()),
            severity,
            reason: reason.to_owned(),
            message: message.into(),
        });
    }
}
