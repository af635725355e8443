//! How many bytes of answers may wait for clients that do not read them.
//!
//! Most lists are made of stored bytes, which cost nothing more, or piece by piece. Tables and protobuf lists are made
//! whole, and stay until the client has read them, long after their request has given up its seat.
//!
//! **Invariant:** what waits in all whole answers together stays below [`HELD_BYTES_MAX`], or is one answer alone.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{HELD_BYTES_MAX, HELD_BYTES_SMALL};
use crate::body::{Body, PIECE_BYTES};

/// Bytes are counted in units of this many, so that their number fits a permit.
const UNIT_BYTES: usize = 1024;

/// The room for answers that wait.
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(HELD_BYTES_MAX / UNIT_BYTES)))
    }

    /// The same body, which takes up room until its last byte is sent or dropped; none if there is no room for it.
    pub(super) fn hold(&self, body: Body) -> Option<Body> {
        let Body::Full(bytes) = body else { return Some(body) };
        if bytes.len() < HELD_BYTES_SMALL {
            return Some(Body::Full(bytes));
        }
        let units = bytes.len().min(HELD_BYTES_MAX) / UNIT_BYTES;
        let units = u32::try_from(units).expect("the room is far below 4 TiB");
        let permit = self.0.clone().try_acquire_many_owned(units).ok()?;
        // A buffer that grew is up to twice as large as what is in it.
        let bytes = Vec::from(bytes).into_boxed_slice();
        Some(Body::Pieces(pieces(&Bytes::from_owner(Held { bytes, _permit: permit }))))
    }
}

/// Views of the same bytes: a connection takes one after the other as it can send them.
fn pieces(bytes: &Bytes) -> VecDeque<Bytes> {
    let starts = (0..bytes.len()).step_by(PIECE_BYTES);
    starts.map(|start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES))).collect()
}

/// Bytes and the room they take.
struct Held {
    bytes: Box<[u8]>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
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
        let room = Room::new();
        let unread = room.hold(answer(HELD_BYTES_MAX - HELD_BYTES_SMALL)).expect("there is room");
        assert!(room.hold(answer(2 * HELD_BYTES_SMALL)).is_none());
        assert!(room.hold(answer(HELD_BYTES_SMALL - 1)).is_some(), "small ones are not counted");
        let read = unread.collect().await.expect("a body cannot fail").to_bytes();
        assert_eq!(read.len(), HELD_BYTES_MAX - HELD_BYTES_SMALL);
        let more_than_all = room.hold(answer(HELD_BYTES_MAX + 1)).expect("one alone is always sent");
        assert!(room.hold(answer(HELD_BYTES_SMALL)).is_none());
        drop(more_than_all);
        assert!(room.hold(answer(HELD_BYTES_SMALL)).is_some());
    }
}
