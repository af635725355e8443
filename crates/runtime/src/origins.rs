//! Which spans asked for the next run of a key, so that its own span can be linked to them. Costs nothing while nobody
//! collects spans.
//!
//! **Invariant:** bounded per key like the causes themselves, and taken when the key runs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use tracing::Span;

/// Links kept per run: as many as causes.
const LINKS_MAX: usize = 16;

/// Spans by the key they asked for.
#[derive(Default)]
pub(crate) struct Origins(Mutex<HashMap<Key, Vec<Span>>>);

impl Origins {
    /// This span asks for a run of this key.
    pub(crate) fn add(&self, key: &Key, span: &Span) {
        if span.is_disabled() {
            return;
        }
        let mut all = self.lock();
        let spans = all.entry(key.clone()).or_default();
        if spans.len() < LINKS_MAX {
            spans.push(span.clone());
        }
    }

    /// The spans that asked for this key; they are told once.
    pub(crate) fn take(&self, key: &Key) -> Vec<Span> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// Links the span of a run to those that asked for it.
    pub(crate) fn link(&self, key: &Key, run: &Span) {
        if run.is_disabled() {
            return;
        }
        for span in self.take(key) {
            run.follows_from(&span);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Span>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
