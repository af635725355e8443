//! Remembers what the server answered, and what it wrote, for all schedules that start from one state.
//!
//! Schedules are identical up to their first fault, and often long after it: a watch that breaks, or a crash between
//! two writes, leaves the objects unchanged. If another schedule has already sent the same request in the same state,
//! the answer is taken from here, and its changes are repeated in the store instead of being computed.
//!
//! **Invariant:** a schedule is the same whether or not its answers were remembered. Everything an answer depends on is
//! part of the question: every change of the store since the start, the request itself, and for a write the time and
//! the server's next random number. Whole seconds are enough, because the server writes times in whole seconds. The
//! only reads that depend on the time are paged lists, whose continue tokens contain it in nanoseconds. Answers to
//! users with limited rights are never remembered.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use homeostat_core::{Entropy, Revision};
use homeostat_store::{Event, Memory};
use http::{Method, Request, Response};
use xxhash_rust::xxh3::Xxh3;

/// The maximum number of bytes of remembered answers and objects: enough for about a thousand schedules of a small
/// operator. Further answers are computed.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The memory that a remembered fingerprint takes.
const NUMBER_WEIGHT: usize = 48;

/// The memory that an answer takes apart from its bodies: maps, headers, events.
const ANSWER_WEIGHT: usize = 1024;

/// The server's answer to a request, and its effects.
pub(crate) struct RememberedAnswer {
    pub(crate) response: Response<Bytes>,
    /// The changes it made, in order.
    pub(crate) changes: Vec<Arc<Event>>,
    /// The position of the server's random number generator afterwards, if it has drawn any.
    position: Option<u64>,
}

impl RememberedAnswer {
    fn weight(&self) -> usize {
        let stored = self.changes.iter().filter_map(|change| change.new.as_ref());
        let stored: usize = stored.map(|entry| entry.bytes.len()).sum();
        ANSWER_WEIGHT + self.response.body().len() + stored
    }
}

/// The answers of all schedules that start from one state.
#[derive(Default)]
pub(crate) struct AnswerMemory {
    kept: RwLock<KeptAnswers>,
}

struct KeptAnswers {
    answers: HashMap<u128, Arc<RememberedAnswer>>,
    /// Fingerprints of changes, by the history that ends with each.
    fingerprints: HashMap<u128, u64>,
    /// The number of bytes that may still be used.
    bytes_left: usize,
}

impl Default for KeptAnswers {
    fn default() -> Self {
        Self { answers: HashMap::new(), fingerprints: HashMap::new(), bytes_left: BYTES_MAX }
    }
}

impl AnswerMemory {
    /// Forgets all answers and stops remembering new ones.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        *kept = KeptAnswers { bytes_left: 0, ..KeptAnswers::default() };
    }

    /// Returns how many answers are remembered.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).answers.len()
    }

    /// Returns the server's answer to this question, if it was asked before.
    pub(crate) fn get(&self, question: u128) -> Option<Arc<RememberedAnswer>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).answers.get(&question).cloned()
    }

    /// Remembers an answer if there is room.
    pub(crate) fn insert(&self, question: u128, answer: RememberedAnswer) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.take_room(answer.weight()) {
            kept.answers.insert(question, Arc::new(answer));
        }
    }

    /// Returns the fingerprint of the latest change in a history; `make` computes it if it is not known.
    pub(crate) fn fingerprint(&self, history: &ServerHistory, make: impl FnOnce() -> u64) -> u64 {
        let known = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(fingerprint) = known.fingerprints.get(&history.hash) {
            return *fingerprint;
        }
        drop(known);
        let fingerprint = make();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.take_room(NUMBER_WEIGHT) {
            kept.fingerprints.insert(history.hash, fingerprint);
        }
        fingerprint
    }
}

impl KeptAnswers {
    /// Reserves this many bytes; returns whether there was room.
    fn take_room(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(self.bytes_left);
        left.is_some()
    }
}

/// Identifies the state of a schedule's server by everything that has led to it.
pub(crate) struct ServerHistory {
    /// A hash of the start state and all changes since.
    hash: u128,
    entropy: Entropy,
}

impl ServerHistory {
    /// Creates the history of a schedule that starts from this revision with this seed.
    pub(crate) fn new(seed: u64, start: Revision, entropy: Entropy) -> Self {
        Self { hash: (u128::from(seed) << 64) | u128::from(start.get()), entropy }
    }

    /// Returns a number that is equal only for equal histories.
    pub(crate) fn hash(&self) -> u128 {
        self.hash
    }

    /// Adds a change, whoever made it.
    pub(crate) fn observe(&mut self, change: &Event) {
        let mut hasher = Xxh3::new();
        hasher.update(&self.hash.to_le_bytes());
        hasher.update(&change.revision.get().to_le_bytes());
        hasher.update(change.key.as_str().as_bytes());
        if let Some(new) = &change.new {
            hasher.update(&new.bytes);
        }
        self.hash = hasher.digest128();
    }

    /// Returns the identity of a request in the current state; `None` if the randomness cannot be repeated.
    pub(crate) fn question(&self, now: Duration, request: &Request<Bytes>) -> Option<u128> {
        let mut hasher = Xxh3::new();
        hasher.update(&self.hash.to_le_bytes());
        let position = self.entropy.position()?;
        let query = request.uri().query().unwrap_or_default();
        let (position, time) = match request.method() {
            _ if query.contains("limit=") || query.contains("continue=") => (position, now.as_nanos()),
            &Method::GET => (0, 0),
            _ => (position, u128::from(now.as_secs())),
        };
        hasher.update(&position.to_le_bytes());
        hasher.update(&time.to_le_bytes());
        let mut text = |bytes: &[u8]| {
            hasher.update(&bytes.len().to_le_bytes());
            hasher.update(bytes);
        };
        text(request.method().as_str().as_bytes());
        text(request.uri().path().as_bytes());
        text(query.as_bytes());
        for (name, value) in request.headers() {
            text(name.as_str().as_bytes());
            text(value.as_bytes());
        }
        text(request.body());
        Some(hasher.digest128())
    }

    /// Repeats the changes of a remembered answer; returns whether that was possible.
    pub(crate) fn repeat(&self, answer: &RememberedAnswer, store: &Memory) -> bool {
        let is_done = answer.changes.is_empty() || store.repeat(&answer.changes).is_ok();
        if let Some(position) = answer.position.filter(|_| is_done) {
            self.entropy.continue_from(position);
        }
        is_done
    }

    /// Returns the position of the server's random number generator.
    pub(crate) fn position(&self) -> Option<u64> {
        self.entropy.position()
    }

    /// Returns what the server just did; `None` if that cannot be repeated. `before` is the earlier position of its
    /// random number generator. Several changes in one commit cannot be repeated, because their order is not known
    /// afterwards; nor can a read that draws random numbers, because they are not part of its question.
    pub(crate) fn answer(
        &self,
        (request_method, before): (&Method, Option<u64>),
        response: Response<Bytes>,
        changes: Vec<Arc<Event>>,
    ) -> Option<RememberedAnswer> {
        let position = self.position().filter(|now| Some(*now) != before);
        if request_method == Method::GET && (position.is_some() || !changes.is_empty()) {
            return None;
        }
        let is_twin = |pair: &[Arc<Event>]| pair[0].revision == pair[1].revision;
        if changes.windows(2).any(is_twin) {
            return None;
        }
        Some(RememberedAnswer { response, changes, position })
    }
}
