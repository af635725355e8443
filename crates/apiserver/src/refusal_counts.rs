//! Counts status codes, and the requests that the listener refuses before the API sees them: invalid credentials (401),
//! too large (413), too many (429), too slow (504), a panic (500).

use std::sync::atomic::{AtomicU64, Ordering};

/// The status codes of our responses; the last counter is for all others.
pub(crate) const CODES: [u16; 20] =
    [200, 201, 202, 301, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504];

/// Counts of refusals. The listener increments them, and `/metrics` shows them.
#[derive(Default)]
pub(crate) struct RefusalCounts([AtomicU64; CODES.len() + 1]);

impl RefusalCounts {
    /// Counts one more refusal with this code.
    pub(crate) fn add(&self, code: u16) {
        self.0[code_index(code)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the codes that occurred, as they are printed, with their counts.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (String, u64)> {
        codes()
            .zip(&self.0)
            .map(|(code, count)| (code, count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
    }
}

/// Returns the index of the counter for a code.
pub(crate) fn code_index(code: u16) -> usize {
    CODES.iter().position(|one| *one == code).unwrap_or(CODES.len())
}

/// Returns the codes as they are printed, in the order of their counters.
pub(crate) fn codes() -> impl Iterator<Item = String> {
    CODES.iter().map(u16::to_string).chain(["other".to_owned()])
}
