//! Remembers the spans that requested the next run of a key, so that its own span can be linked to them. This costs
//! nothing while no spans are collected.
//!
//! **Invariant:** memory is bounded, per key like the causes themselves and in the number of keys: in a standby
//! replica, keys wait indefinitely, and a retained span keeps the collector's data about it alive. The spans are
//! removed when the key runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use tracing::Span;

use crate::recent_map::RecentMap;

/// The maximum number of links kept per run, the same as for causes.
const LINKS_MAX: usize = 16;

/// The maximum number of keys with links; the oldest are dropped. A trace of such a key shows one link fewer.
const KEYS_MAX: usize = 4096;

/// Spans by the key for which they requested a run.
pub(crate) struct SpanLinks(Mutex<RecentMap<Key, Vec<Span>>>);

impl Default for SpanLinks {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(KEYS_MAX)))
    }
}

impl SpanLinks {
    /// Records that this span requests a run of this key.
    pub(crate) fn add(&self, key: &Key, span: &Span) {
        if span.is_disabled() {
            return;
        }
        let mut all = self.lock();
        match all.get_mut(key) {
            Some(spans) if spans.len() < LINKS_MAX => spans.push(span.clone()),
            Some(_) => {}
            None => all.insert(key.clone(), vec![span.clone()]),
        }
    }

    /// Removes and returns the spans that requested a run of this key.
    pub(crate) fn take(&self, key: &Key) -> Vec<Span> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// Links the span of a run to those that requested it.
    pub(crate) fn link(&self, key: &Key, run: &Span) {
        if run.is_disabled() {
            return;
        }
        for span in self.take(key) {
            run.follows_from(&span);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecentMap<Key, Vec<Span>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_keys_that_never_run_are_let_go() {
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).finish();
        let span_links = SpanLinks::default();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..3 * KEYS_MAX {
                let key = Key::new("", "things", "a", &number.to_string());
                (0..2 * LINKS_MAX).for_each(|_| span_links.add(&key, &tracing::debug_span!("observe")));
            }
        });
        assert_eq!(span_links.lock().len(), KEYS_MAX);
        let last = Key::new("", "things", "a", &(3 * KEYS_MAX - 1).to_string());
        assert_eq!(span_links.take(&last).len(), LINKS_MAX);
        assert_eq!(span_links.take(&Key::new("", "things", "a", "0")).len(), 0);
    }
}
