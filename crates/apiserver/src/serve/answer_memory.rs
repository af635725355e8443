//! Limits the memory of responses that clients have not read yet.
//!
//! Tables and protobuf lists are built as a whole, other lists piece by piece; a piece stays until the client has read
//! it. An unfinished list also retains its objects, which cost nothing as long as they are still the stored ones.
//!
//! **Invariant:** all waiting responses together stay below [`UNSENT_BYTES_MAX`], and those of one user below
//! [`USER_UNSENT_BYTES_MAX`], except for a single larger response. A client that does not read leaves memory for all
//! others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::body::{Body, PIECE_BYTES};
use crate::limits::{UNSENT_BYTES_MAX, UNSENT_BYTES_SMALL, USER_UNSENT_BYTES_MAX};

/// The memory of waiting responses.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerMemory(Arc<Mutex<AnswerMemoryUse>>);

/// The memory of one user's waiting responses.
#[derive(Clone, Debug)]
pub(crate) struct UserAnswerMemory {
    memory: AnswerMemory,
    user: Arc<str>,
}

impl UserAnswerMemory {
    /// Returns the same bytes, counted until they are sent or dropped; `None` if there is no memory for them.
    pub(super) fn reserve_bytes(&self, bytes: Bytes) -> Option<Bytes> {
        let reservation = self.reserve(bytes.len())?;
        Some(Bytes::from_owner(CountedBytes { bytes, _reservation: reservation }))
    }

    /// Returns the same body, counted until its last byte is sent or dropped; `None` if there is no memory for it.
    pub(super) fn reserve_body(&self, body: Body) -> Option<Body> {
        let Body::Full(bytes) = body else { return Some(body) };
        if bytes.len() < UNSENT_BYTES_SMALL {
            return Some(Body::Full(bytes));
        }
        let reservation = self.reserve(bytes.len())?;
        // A buffer that has grown is up to twice as large as its contents.
        let bytes = Vec::from(bytes).into_boxed_slice();
        Some(Body::Pieces(split_into_pieces(&Bytes::from_owner(CountedBytes {
            bytes,
            _reservation: reservation,
        }))))
    }

    /// Reserves this much memory; returns `None` if there is not enough.
    pub(super) fn reserve(&self, bytes: usize) -> Option<AnswerMemoryReservation> {
        let mut waiting = self.memory.waiting();
        let theirs = waiting.by_user.get(&self.user).copied().unwrap_or_default();
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(bytes) <= most;
        if !fits(waiting.all, UNSENT_BYTES_MAX) || !fits(theirs, USER_UNSENT_BYTES_MAX) {
            return None;
        }
        waiting.all += bytes;
        waiting.by_user.insert(Arc::clone(&self.user), theirs + bytes);
        Some(AnswerMemoryReservation { memory: self.clone(), bytes })
    }
}

/// The bytes of waiting responses.
#[derive(Debug, Default)]
struct AnswerMemoryUse {
    all: usize,
    by_user: HashMap<Arc<str>, usize>,
}

impl AnswerMemory {
    /// Returns the memory of this user.
    pub(super) fn for_user(&self, user: &str) -> UserAnswerMemory {
        UserAnswerMemory { memory: self.clone(), user: user.into() }
    }

    fn waiting(&self) -> MutexGuard<'_, AnswerMemoryUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one response, freed when dropped.
#[derive(Debug)]
pub(super) struct AnswerMemoryReservation {
    memory: UserAnswerMemory,
    bytes: usize,
}

impl Drop for AnswerMemoryReservation {
    fn drop(&mut self) {
        let mut waiting = self.memory.memory.waiting();
        waiting.all -= self.bytes;
        match waiting.by_user.get_mut(&self.memory.user) {
            Some(theirs) if *theirs > self.bytes => *theirs -= self.bytes,
            _ => drop(waiting.by_user.remove(&self.memory.user)),
        }
    }
}

/// Splits the bytes without copying. A connection takes one piece after another as it can send them.
fn split_into_pieces(bytes: &Bytes) -> VecDeque<Bytes> {
    let starts = (0..bytes.len()).step_by(PIECE_BYTES);
    starts.map(|start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES))).collect()
}

/// Bytes and their reservation.
struct CountedBytes<B> {
    bytes: B,
    _reservation: AnswerMemoryReservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for CountedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn answer(bytes: usize) -> Body {
        Body::Full(vec![b'x'; bytes].into())
    }

    #[tokio::test]
    async fn unread_answers_take_memory_until_they_are_dropped() {
        let memory = AnswerMemory::default();
        let unread = memory
            .for_user("jane")
            .reserve_body(answer(USER_UNSENT_BYTES_MAX - UNSENT_BYTES_SMALL))
            .expect("there is room");
        assert!(memory.for_user("jane").reserve_body(answer(2 * UNSENT_BYTES_SMALL)).is_none());
        assert!(
            memory.for_user("jane").reserve_body(answer(UNSENT_BYTES_SMALL - 1)).is_some(),
            "small ones are not counted"
        );
        let read = unread.collect().await.expect("a body cannot fail").to_bytes();
        assert_eq!(read.len(), USER_UNSENT_BYTES_MAX - UNSENT_BYTES_SMALL);
        drop(read);
        let more_than_all = memory
            .for_user("jane")
            .reserve_body(answer(UNSENT_BYTES_MAX + 1))
            .expect("one alone is always sent");
        assert!(memory.for_user("joe").reserve_body(answer(UNSENT_BYTES_SMALL)).is_none());
        drop(more_than_all);
        assert!(memory.for_user("joe").reserve_body(answer(UNSENT_BYTES_SMALL)).is_some());
        assert!(memory.waiting().by_user.is_empty(), "no user is remembered without an answer");
    }

    #[test]
    fn a_user_who_reads_nothing_leaves_memory_for_others() {
        let memory = AnswerMemory::default();
        let unread: Vec<_> =
            std::iter::from_fn(|| memory.for_user("jane").reserve_body(answer(16 * 1024 * 1024)))
                .take(100)
                .collect();
        assert_eq!(unread.len(), USER_UNSENT_BYTES_MAX / (16 * 1024 * 1024));
        assert!(memory.for_user("joe").reserve_body(answer(16 * 1024 * 1024)).is_some());
    }
}
