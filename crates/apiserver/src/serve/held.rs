//! How many bytes of answers may wait for clients that do not read them.
//!
//! Most lists are made of stored bytes, which cost nothing more, or piece by piece. Tables and protobuf lists are made
//! whole, and stay until the client has read them, long after their request has given up its seat.
//!
//! **Invariant:** what waits in all whole answers together stays below [`HELD_BYTES_MAX`], and what waits for one user
//! below [`USER_HELD_BYTES_MAX`], or is one answer alone. Whoever reads nothing leaves room for everybody else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::limits::{HELD_BYTES_MAX, HELD_BYTES_SMALL, USER_HELD_BYTES_MAX};
use crate::body::{Body, PIECE_BYTES};

/// The room for answers that wait.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<Mutex<Waiting>>);

/// The room of one user.
pub(crate) struct UserRoom {
    room: Room,
    user: Box<str>,
}

impl UserRoom {
    /// The same bytes, which take up room until they are sent or dropped; none if there is no room for them.
    pub(super) fn hold(&self, bytes: Bytes) -> Option<Bytes> {
        let place = self.room.take(bytes.len(), &self.user)?;
        Some(Bytes::from_owner(Held { bytes, _place: place }))
    }
}

/// Bytes that wait.
#[derive(Default)]
struct Waiting {
    all: usize,
    by_user: HashMap<Box<str>, usize>,
}

impl Room {
    /// The same body, which takes up room until its last byte is sent or dropped; none if there is no room for it.
    pub(super) fn hold(&self, body: Body, user: &str) -> Option<Body> {
        let Body::Full(bytes) = body else { return Some(body) };
        if bytes.len() < HELD_BYTES_SMALL {
            return Some(Body::Full(bytes));
        }
        let place = self.take(bytes.len(), user)?;
        // A buffer that grew is up to twice as large as what is in it.
        let bytes = Vec::from(bytes).into_boxed_slice();
        Some(Body::Pieces(pieces(&Bytes::from_owner(Held { bytes, _place: place }))))
    }

    /// The room of this user, for what comes in pieces.
    pub(super) fn of(&self, user: &str) -> UserRoom {
        UserRoom { room: self.clone(), user: user.into() }
    }

    fn take(&self, bytes: usize, user: &str) -> Option<Place> {
        let mut waiting = self.waiting();
        let theirs = waiting.by_user.get(user).copied().unwrap_or_default();
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(bytes) <= most;
        if !fits(waiting.all, HELD_BYTES_MAX) || !fits(theirs, USER_HELD_BYTES_MAX) {
            return None;
        }
        waiting.all += bytes;
        waiting.by_user.insert(user.into(), theirs + bytes);
        Some(Place { room: self.clone(), user: user.into(), bytes })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room one answer takes, free again when dropped.
struct Place {
    room: Room,
    user: Box<str>,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.room.waiting();
        waiting.all -= self.bytes;
        match waiting.by_user.get_mut(&self.user) {
            Some(theirs) if *theirs > self.bytes => *theirs -= self.bytes,
            _ => drop(waiting.by_user.remove(&self.user)),
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
            room.hold(answer(USER_HELD_BYTES_MAX - HELD_BYTES_SMALL), "jane").expect("there is room");
        assert!(room.hold(answer(2 * HELD_BYTES_SMALL), "jane").is_none());
        assert!(room.hold(answer(HELD_BYTES_SMALL - 1), "jane").is_some(), "small ones are not counted");
        let read = unread.collect().await.expect("a body cannot fail").to_bytes();
        assert_eq!(read.len(), USER_HELD_BYTES_MAX - HELD_BYTES_SMALL);
        drop(read);
        let more_than_all = room.hold(answer(HELD_BYTES_MAX + 1), "jane").expect("one alone is always sent");
        assert!(room.hold(answer(HELD_BYTES_SMALL), "joe").is_none());
        drop(more_than_all);
        assert!(room.hold(answer(HELD_BYTES_SMALL), "joe").is_some());
        assert!(room.waiting().by_user.is_empty(), "nobody is remembered without an answer");
    }

    #[test]
    fn who_reads_nothing_leaves_room_for_others() {
        let room = Room::default();
        let unread: Vec<_> =
            std::iter::from_fn(|| room.hold(answer(16 * 1024 * 1024), "jane")).take(100).collect();
        assert_eq!(unread.len(), USER_HELD_BYTES_MAX / (16 * 1024 * 1024));
        assert!(room.hold(answer(16 * 1024 * 1024), "joe").is_some());
    }
}
