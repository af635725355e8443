//! Which spans asked for the next run of a key, so that its own span can be linked to them. Costs nothing while nobody
//! collects spans.
//!
//! **Invariant:** memory is bounded, per key like the causes themselves and in the number of keys: keys wait for ever in
//! a standby replica, and a span that is kept keeps alive what the collector knows of it. The spans are taken when the
//! key runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use tracing::Span;

use crate::recent::Recent;

/// Links kept per run: as many as causes.
const LINKS_MAX: usize = 16;

/// For how many keys links are kept: the latest ones. A trace of an older key shows one link less.
const KEYS_MAX: usize = 4096;

/// Spans by the key they asked for.
pub(crate) struct SpanLinks(Mutex<Recent<Key, Vec<Span>>>);

impl Default for SpanLinks {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(KEYS_MAX)))
    }
}

impl SpanLinks {
    /// Notes that this span asks for a run of this key.
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

    /// Removes and returns the spans that asked for this key.
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

    fn lock(&self) -> MutexGuard<'_, Recent<Key, Vec<Span>>> {
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
