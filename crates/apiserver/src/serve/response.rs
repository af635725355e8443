//! The body of an answer on its way out: small pieces joined into large writes, endless ones ended at shutdown.
//!
//! A list is thousands of shared pieces and a busy watch hands out many at once; each would become a frame and a TLS
//! record of its own. Joining copies them once, which is far cheaper than a record each.
//!
//! **Invariant:** a piece never waits for a later one: what is ready is sent when nothing more is ready.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::connections::InUse;
use super::held::UserRoom;
use super::limits::{JOINT_BYTES, PIECE_BYTES_SMALL};
use super::progress::UnderWay;
use super::seats::Seat;
use crate::body::Body;

/// The body of an answer.
pub(crate) struct ResponseBody {
    body: Body,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    is_done: bool,
    counted: Option<Counted>,
}

/// What an answer takes up until the connection has taken the last piece of it, or nobody wants it any more.
pub(crate) struct Counted {
    /// None for what has nothing to send most of the time.
    pub(crate) under_way: Option<UnderWay>,
    pub(crate) _seat: Option<Seat>,
    pub(crate) _in_use: InUse,
    /// Where the events of a watch are counted while they wait to be read.
    pub(crate) events: Option<UserRoom>,
}

impl ResponseBody {
    /// A body that ends when `stop` is cancelled, if it would not end by itself.
    pub(crate) fn new(body: Body, stop: &CancellationToken, counted: Option<Counted>) -> Self {
        let stop = matches!(body, Body::Stream(_)).then(|| Box::pin(stop.clone().cancelled_owned()));
        Self { body, stop, is_done: false, counted }
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

    /// The same piece, counted until it is sent. A watch whose client does not read ends when there is no room for more: it
    /// can be opened again.
    fn held(&mut self, piece: Bytes) -> Option<Bytes> {
        let events = self.counted.as_ref().and_then(|counted| counted.events.as_ref());
        let held = match events {
            Some(room) if piece.len() >= PIECE_BYTES_SMALL => room.hold(piece),
            _ => Some(piece),
        };
        self.is_done |= held.is_none();
        held
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
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        if let Some(under_way) = body.counted.as_ref().and_then(|counted| counted.under_way.as_ref()) {
            under_way.moved();
        }
        match body.poll_piece(cx) {
            Poll::Ready(Some(first)) => {
                let piece = body.join(first, cx);
                Poll::Ready(body.held(piece).map(|piece| Ok(Frame::data(piece))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_done || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
