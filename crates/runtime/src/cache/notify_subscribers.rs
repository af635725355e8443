//! Notifies the subscribers of a cache of changes, and reports when a subscriber panics.
//!
//! **Invariant:** subscribers are called while no lock on the cache's state is held, in the order of the watch.

use std::sync::PoisonError;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Source};

use super::{ObjectCache, ObjectDelta, ShownBy};
use crate::journal::Journal;
use crate::panics::catch_panic;

/// The name of a subscriber in reports.
const FUNCTIONS: &str = "a mapping or predicate";

impl ObjectCache {
    pub(super) fn notify_subscribers(&self, delta: &ObjectDelta) {
        let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for subscriber in &*subscribers {
            catch_panic(|| subscriber(delta))
                .unwrap_or_else(|message| self.report_panic(FUNCTIONS, &delta.key, message));
        }
    }

    pub(super) fn notify_quarantined(&self, key: &Key, by: ShownBy) {
        let subscribers = self.0.quarantine_subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for subscriber in &*subscribers {
            catch_panic(|| subscriber(key, by))
                .unwrap_or_else(|message| self.report_panic(FUNCTIONS, key, message));
        }
    }

    /// Sets where panics are recorded from now on.
    pub(crate) fn report_to(&self, journal: Journal, source: Source) {
        // A cache is fed once.
        let _ = self.0.reporter.set((journal, source));
    }

    pub(super) fn report_panic(&self, function: &'static str, object: &Key, message: String) {
        tracing::error!(%object, function, message, "the operator's code panicked on this object and missed this change");
        if let Some((journal, source)) = self.0.reporter.get() {
            let (object, function) = (object.clone(), function.into());
            journal.record(source, Entry::Panicked { object, function, message });
        }
    }
}
