//! What the listener turns away before the API sees it, by the code of the answer: no credentials that count (401),
//! too large (413), no room (429), too slow (504), a panic (500).

use std::sync::atomic::{AtomicU64, Ordering};

use super::CODES;

/// Counts of refusals. The listener adds, `/metrics` shows.
#[derive(Default)]
pub(crate) struct Refusals([AtomicU64; CODES.len() + 1]);

impl Refusals {
    /// One more was refused with this code.
    pub(crate) fn add(&self, code: u16) {
        self.0[super::place(code)].fetch_add(1, Ordering::Relaxed);
    }

    /// The codes there were, as they are printed.
    pub(super) fn counted(&self) -> impl Iterator<Item = (String, u64)> {
        super::codes()
            .zip(&self.0)
            .map(|(code, count)| (code, count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
    }
}
