//! How many bytes of answers may wait for clients that do not read them.
//!
//! Tables and protobuf lists are made whole, other lists piece by piece; a piece stays until the client has read it. An
//! unfinished list also keeps its objects, which cost nothing as long as they are the stored ones.
//!
//! **Invariant:** what waits in all answers together stays below [`HELD_BYTES_MAX`], and what waits for one user
//! below [`USER_HELD_BYTES_MAX`], or is one answer alone. Whoever reads nothing leaves room for everybody else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::limits::{HELD_BYTES_MAX, HELD_BYTES_SMALL, USER_HELD_BYTES_MAX};
use crate::body::{Body, PIECE_BYTES};

/// The room for answers that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Mutex<Waiting>>);

/// The room of one user.
#[derive(Clone, Debug)]
pub(crate) struct UserRoom {
    room: Room,
    user: Arc<str>,
}

impl UserRoom {
    /// The same bytes, which take up room until they are sent or dropped; none if there is no room for them.
    pub(super) fn hold(&self, bytes: Bytes) -> Option<Bytes> {
        let place = self.take(bytes.len())?;
        Some(Bytes::from_owner(Held { bytes, _place: place }))
    }

    /// The same body, which takes up room until its last byte is sent or dropped; none if there is no room for it.
    pub(super) fn hold_body(&self, body: Body) -> Option<Body> {
        let Body::Full(bytes) = body else { return Some(body) };
        if bytes.len() < HELD_BYTES_SMALL {
            return Some(Body::Full(bytes));
        }
        let place = self.take(bytes.len())?;
        // A buffer that grew is up to twice as large as what is in it.
        let bytes = Vec::from(bytes).into_boxed_slice();
        Some(Body::Pieces(pieces(&Bytes::from_owner(Held { bytes, _place: place }))))
    }

    /// Takes so much room; none if there is not so much.
    pub(super) fn take(&self, bytes: usize) -> Option<Place> {
        let mut waiting = self.room.waiting();
        let theirs = waiting.by_user.get(&self.user).copied().unwrap_or_default();
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(bytes) <= most;
        if !fits(waiting.all, HELD_BYTES_MAX) || !fits(theirs, USER_HELD_BYTES_MAX) {
            return None;
        }
        waiting.all += bytes;
        waiting.by_user.insert(Arc::clone(&self.user), theirs + bytes);
        Some(Place { room: self.clone(), bytes })
    }
}

/// Bytes that wait.
#[derive(Debug, Default)]
struct Waiting {
    all: usize,
    by_user: HashMap<Arc<str>, usize>,
}

impl Room {
    /// The room of this user.
    pub(super) fn of(&self, user: &str) -> UserRoom {
        UserRoom { room: self.clone(), user: user.into() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room one answer takes, free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: UserRoom,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.room.room.waiting();
        waiting.all -= self.bytes;
        match waiting.by_user.get_mut(&self.room.user) {
            Some(theirs) if *theirs > self.bytes => *theirs -= self.bytes,
            _ => drop(waiting.by_user.remove(&self.room.user)),
        }
    }
}

/// Views of the same bytes: a connection takes one after the other as it can send them.
fn pieces(bytes: &Bytes) -> VecDeque<Bytes> {
    let starts = (0..bytes.len()).step_by(PIECE_BYTES);
    starts.map(|start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES))).collect()
}

/// Bytes and the room they take.
struct Held<B> {
    bytes: B,
    _place: Place,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Held<B> {
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
    async fn answers_that_nobody_reads_take_up_room_until_they_are_gone() {
        let room = Room::default();
        let unread =
            room.of("jane").hold_body(answer(USER_HELD_BYTES_MAX - HELD_BYTES_SMALL)).expect("there is room");
        assert!(room.of("jane").hold_body(answer(2 * HELD_BYTES_SMALL)).is_none());
        assert!(
            room.of("jane").hold_body(answer(HELD_BYTES_SMALL - 1)).is_some(),
            "small ones are not counted"
        );
        let read = unread.collect().await.expect("a body cannot fail").to_bytes();
        assert_eq!(read.len(), USER_HELD_BYTES_MAX - HELD_BYTES_SMALL);
        drop(read);
        let more_than_all =
            room.of("jane").hold_body(answer(HELD_BYTES_MAX + 1)).expect("one alone is always sent");
        assert!(room.of("joe").hold_body(answer(HELD_BYTES_SMALL)).is_none());
        drop(more_than_all);
        assert!(room.of("joe").hold_body(answer(HELD_BYTES_SMALL)).is_some());
        assert!(room.waiting().by_user.is_empty(), "nobody is remembered without an answer");
    }

    #[test]
    fn who_reads_nothing_leaves_room_for_others() {
        let room = Room::default();
        let unread: Vec<_> =
            std::iter::from_fn(|| room.of("jane").hold_body(answer(16 * 1024 * 1024))).take(100).collect();
        assert_eq!(unread.len(), USER_HELD_BYTES_MAX / (16 * 1024 * 1024));
        assert!(room.of("joe").hold_body(answer(16 * 1024 * 1024)).is_some());
    }
}
