//! The body of an answer on its way out: small pieces joined into large writes, endless ones ended at shutdown.
//!
//! A list is thousands of shared pieces and a busy watch hands out many at once; each would become a frame and a TLS
//! record of its own. Joining copies them once, which is far cheaper than a record each.
//!
//! **Invariant:** a piece never waits for a later one: what is ready is sent when nothing more is ready. What an answer takes up is
//! taken until its last byte is on the wire, not until the connection has put it in a buffer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::connections::{InUse, Refusal};
use super::held::{Place, UserRoom};
use super::limits::{JOINT_BYTES, PIECE_BYTES_SMALL};
use super::progress::UnderWay;
use super::seats::Seat;
use crate::body::{Body, PIECE_BYTES};

/// The body of an answer.
pub(crate) struct ResponseBody {
    body: Body,
    /// What is left of a piece that is handed over in parts.
    rest: Bytes,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    is_done: bool,
    counted: Option<Arc<Counted>>,
}

/// What an answer takes up until its last byte is sent, or nobody wants it any more.
pub(crate) struct Counted {
    /// None for what has nothing to send most of the time.
    pub(crate) under_way: Option<UnderWay>,
    pub(crate) _seat: Option<Seat>,
    pub(crate) _in_use: InUse,
    /// Of a refusal: what it takes.
    pub(crate) _refusal: (Option<Refusal>, Option<Place>),
    /// Where pieces that are made one by one are counted while they wait to be read.
    pub(crate) room: Option<UserRoom>,
}

/// A part of an answer on its way, and with it what the answer takes up.
struct SentPart {
    bytes: Bytes,
    counted: Arc<Counted>,
}

impl AsRef<[u8]> for SentPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SentPart {
    fn drop(&mut self) {
        if let Some(under_way) = &self.counted.under_way {
            under_way.taken(self.bytes.len());
        }
    }
}

/// Why an answer ends before it is whole.
#[derive(Debug, thiserror::Error)]
#[error("too much waits for this user to read it; the rest of the answer is given up")]
pub(crate) struct Unread;

impl ResponseBody {
    /// A body that ends when `stop` is cancelled, if it would not end by itself.
    pub(crate) fn new(body: Body, stop: &CancellationToken, counted: Option<Counted>) -> Self {
        let stop = matches!(body, Body::Stream(_)).then(|| Box::pin(stop.clone().cancelled_owned()));
        Self { body, rest: Bytes::new(), stop, is_done: false, counted: counted.map(Arc::new) }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let piece = frame.and_then(|Ok(frame)| frame.into_data().ok());
            self.is_done = piece.is_none();
            return Poll::Ready(piece);
        }
        let is_stopped = self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready());
        self.is_done = is_stopped;
        if is_stopped { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The same piece, counted until it is sent; none if there is no room for it.
    fn held(&self, piece: Bytes) -> Option<Bytes> {
        match self.counted.as_ref().and_then(|counted| counted.room.as_ref()) {
            Some(room) if piece.len() >= PIECE_BYTES_SMALL => room.hold(piece),
            _ => Some(piece),
        }
    }

    /// The next part of what is left of a piece.
    fn next_part(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        match &self.counted {
            Some(counted) => Bytes::from_owner(SentPart { bytes, counted: Arc::clone(counted) }),
            None => bytes,
        }
    }

    /// No room for more: a watch ends, and can be opened again; anything else is broken off, lest it look whole.
    fn give_up(&mut self) -> Option<Result<Frame<Bytes>, Unread>> {
        self.is_done = true;
        let is_short = self.counted.as_ref().is_some_and(|counted| counted.under_way.is_some());
        is_short.then_some(Err(Unread))
    }

    fn note_whether_it_is_made(&self, is_being_made: bool) {
        if let Some(under_way) = self.counted.as_ref().and_then(|counted| counted.under_way.as_ref())
            && matches!(self.body, Body::List(..) | Body::Stream(_))
        {
            under_way.being_made(is_being_made);
        }
    }

    /// Joins `first` with what else is ready.
    fn join(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        if first.len() >= PIECE_BYTES_SMALL {
            return first;
        }
        let mut joint = None::<BytesMut>;
        let mut length = first.len();
        while length < JOINT_BYTES
            && let Poll::Ready(Some(next)) = self.poll_piece(cx)
        {
            let joint = joint.get_or_insert_with(|| {
                let mut joint = BytesMut::with_capacity(JOINT_BYTES + PIECE_BYTES_SMALL);
                joint.extend_from_slice(&first);
                joint
            });
            joint.extend_from_slice(&next);
            length = joint.len();
        }
        joint.map_or(first, BytesMut::freeze)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Unread;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Unread>>> {
        let body = self.get_mut();
        if body.rest.is_empty() {
            let polled = body.poll_piece(cx);
            body.note_whether_it_is_made(polled.is_pending());
            let Some(first) = std::task::ready!(polled) else { return Poll::Ready(None) };
            let piece = body.join(first, cx);
            match body.held(piece) {
                Some(piece) => body.rest = piece,
                None => return Poll::Ready(body.give_up()),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(body.next_part()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && (self.is_done || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    async fn frames(body: Body) -> Vec<usize> {
        let mut body = ResponseBody::new(body, &CancellationToken::new(), None);
        let mut sizes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            sizes.push(frame.into_data().unwrap().len());
        }
        sizes
    }

    fn pieces(sizes: &[usize]) -> Vec<Bytes> {
        sizes.iter().map(|size| Bytes::from(vec![b'x'; *size])).collect()
    }

    #[tokio::test]
    async fn small_pieces_are_joined_and_large_ones_left_alone() {
        let small = pieces(&[1000; 100]);
        let sizes = frames(Body::Pieces(small.into())).await;
        assert_eq!(sizes.iter().sum::<usize>(), 100_000);
        assert!(sizes.len() <= 4, "{sizes:?}");
        assert_eq!(frames(Body::Pieces(pieces(&[9000, 9000]).into())).await, [9000, 9000]);
        assert_eq!(frames(Body::Full(Bytes::from_static(b"one"))).await, [3]);
        assert_eq!(frames(Body::Empty).await, [0; 0]);
    }

    #[tokio::test]
    async fn a_watch_sends_what_is_ready_and_ends_when_told() {
        let stop = CancellationToken::new();
        let ready = futures::stream::iter(pieces(&[10, 10]));
        let stream = ready.chain(futures::stream::pending());
        let mut body = ResponseBody::new(Body::stream(stream), &stop, None);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().len(), 20);
        stop.cancel();
        assert!(body.frame().await.is_none());
        assert!(body.frame().await.is_none());
    }
}
