//! Sends the body of a response: joins small pieces into large writes, and ends endless bodies at shutdown.
//!
//! A list consists of thousands of shared pieces, and a busy watch produces many in quick succession; each would become
//! its own frame and TLS record. Joining copies them once, which is far cheaper than a separate record for each.
//!
//! **Invariant:** a piece never waits for a later one: whatever is ready is sent as soon as nothing else is ready. The
//! resources of a response are held until its last byte is sent, not until the connection has buffered it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::answer_memory::{AnswerMemoryReservation, UserAnswerMemory};
use super::answer_progress::AnswerInProgress;
use super::connection_table::{ActiveRequest, UnsentRefusal};
use super::request_slots::RequestSlot;
use crate::body::{Body, BrokenAnswer, PIECE_BYTES};
use crate::limits::{JOINED_BYTES, PIECE_BYTES_SMALL};

/// The body of a response.
pub(crate) struct ResponseBody {
    body: Body,
    /// The rest of a piece that is handed over in parts.
    rest: Bytes,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    is_done: bool,
    /// The reason it ended early, until it is reported.
    broken: Option<BrokenAnswer>,
    resources: Option<Arc<AnswerResources>>,
}

/// The resources of a response, held until its last byte is sent or it is dropped.
pub(crate) struct AnswerResources {
    /// `None` for a response that has nothing to send most of the time.
    pub(crate) in_progress: Option<AnswerInProgress>,
    pub(crate) _slot: Option<RequestSlot>,
    pub(crate) _active_request: ActiveRequest,
    /// The resources of a refusal.
    pub(crate) _refusal: RefusalResources,
    /// The memory charged for pieces that are produced one by one, while they wait to be read.
    pub(crate) memory: Option<UserAnswerMemory>,
}

/// The resources of a refusal, held until it is sent.
#[derive(Default)]
pub(crate) struct RefusalResources {
    /// Set for an unauthenticated client.
    pub(crate) _unsent: Option<UnsentRefusal>,
    /// Set for an authenticated user.
    pub(crate) _memory: Option<AnswerMemoryReservation>,
}

/// A part of a response that is being sent, which keeps the resources of the response.
struct AnswerPart {
    bytes: Bytes,
    resources: Arc<AnswerResources>,
}

impl AsRef<[u8]> for AnswerPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for AnswerPart {
    fn drop(&mut self) {
        if let Some(in_progress) = &self.resources.in_progress {
            in_progress.taken(self.bytes.len());
        }
    }
}

/// The reason a response ends before it is complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncompleteAnswer {
    /// The client does not read it.
    #[error("the user leaves too many bytes of answers unread; the rest of this answer is dropped")]
    Unread,
    /// The source of the response was interrupted.
    #[error(transparent)]
    Broken(BrokenAnswer),
}

impl ResponseBody {
    /// Creates a body. A body that would not end by itself ends when `stop` is cancelled.
    pub(crate) fn new(body: Body, stop: &CancellationToken, resources: Option<AnswerResources>) -> Self {
        let stop = matches!(body, Body::Stream(_) | Body::Proxied(_))
            .then(|| Box::pin(stop.clone().cancelled_owned()));
        let resources = resources.map(Arc::new);
        Self { body, rest: Bytes::new(), stop, is_done: false, broken: None, resources }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let piece = match frame {
                Some(Err(error)) => {
                    self.broken = Some(error);
                    None
                }
                frame => frame.and_then(|frame| frame.ok()?.into_data().ok()),
            };
            self.is_done = piece.is_none();
            return Poll::Ready(piece);
        }
        let is_stopped = self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready());
        self.is_done = is_stopped;
        if is_stopped { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Returns the same piece, counted until it is sent; `None` if there is no memory for it.
    fn reserve_memory(&self, piece: Bytes) -> Option<Bytes> {
        match self.resources.as_ref().and_then(|resources| resources.memory.as_ref()) {
            Some(memory) if piece.len() >= PIECE_BYTES_SMALL => memory.reserve_bytes(piece),
            _ => Some(piece),
        }
    }

    /// Returns the next part of the current piece.
    fn next_part(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        match &self.resources {
            Some(resources) => Bytes::from_owner(AnswerPart { bytes, resources: Arc::clone(resources) }),
            None => bytes,
        }
    }

    /// Ends the response for lack of memory. A watch simply ends, and can be reopened; anything else is aborted, so
    /// that it does not look complete.
    fn give_up(&mut self) -> Option<Result<Frame<Bytes>, IncompleteAnswer>> {
        self.is_done = true;
        let is_short = self.resources.as_ref().is_some_and(|resources| resources.in_progress.is_some());
        is_short.then_some(Err(IncompleteAnswer::Unread))
    }

    fn note_being_made(&self, is_being_made: bool) {
        if let Some(in_progress) =
            self.resources.as_ref().and_then(|resources| resources.in_progress.as_ref())
            && matches!(self.body, Body::List(..) | Body::Stream(_) | Body::Proxied(_))
        {
            in_progress.set_being_made(is_being_made);
        }
    }

    /// Joins `first` with the other pieces that are ready.
    fn join(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        if first.len() >= PIECE_BYTES_SMALL {
            return first;
        }
        let mut joined = None::<BytesMut>;
        let mut length = first.len();
        while length < JOINED_BYTES
            && let Poll::Ready(Some(next)) = self.poll_piece(cx)
        {
            let joined = joined.get_or_insert_with(|| {
                let mut joined = BytesMut::with_capacity(JOINED_BYTES + PIECE_BYTES_SMALL);
                joined.extend_from_slice(&first);
                joined
            });
            joined.extend_from_slice(&next);
            length = joined.len();
        }
        joined.map_or(first, BytesMut::freeze)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = IncompleteAnswer;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncompleteAnswer>>> {
        let body = self.get_mut();
        if body.rest.is_empty() {
            let polled = body.poll_piece(cx);
            body.note_being_made(polled.is_pending());
            let Some(first) = std::task::ready!(polled) else {
                return Poll::Ready(body.broken.take().map(|error| Err(IncompleteAnswer::Broken(error))));
            };
            let piece = body.join(first, cx);
            match body.reserve_memory(piece) {
                Some(piece) => body.rest = piece,
                None => return Poll::Ready(body.give_up()),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(body.next_part()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.broken.is_none() && (self.is_done || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use http_body_util::BodyExt as _;

    use super::super::answer_progress::AnswerProgress;
    use super::super::connection_table::ConnectionTable;
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
    async fn small_pieces_are_joined_and_large_ones_are_not() {
        let small = pieces(&[1000; 100]);
        let sizes = frames(Body::Pieces(small.into())).await;
        assert_eq!(sizes.iter().sum::<usize>(), 100_000);
        assert!(sizes.len() <= 4, "{sizes:?}");
        assert_eq!(frames(Body::Pieces(pieces(&[9000, 9000]).into())).await, [9000, 9000]);
        assert_eq!(frames(Body::Full(Bytes::from_static(b"one"))).await, [3]);
        assert_eq!(frames(Body::Empty).await, [0; 0]);
    }

    #[tokio::test]
    async fn a_watch_sends_ready_pieces_and_ends_at_shutdown() {
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

    /// What a Pod takes its time for is not the client's fault; what the client does not take is.
    #[tokio::test(start_paused = true)]
    async fn an_answer_of_a_pod_stalls_only_while_it_waits_for_its_client() {
        let connections = ConnectionTable::new(1);
        let connection = connections.accept([127, 0, 0, 1].into()).expect("there is room");
        let progress = Arc::new(AnswerProgress::default());
        let resources = AnswerResources {
            in_progress: Some(progress.begin(None)),
            _slot: None,
            _active_request: connection.begin(),
            _refusal: RefusalResources::default(),
            memory: None,
        };
        let (pieces, arriving) = futures::channel::mpsc::unbounded::<Result<Bytes, BrokenAnswer>>();
        let mut body =
            ResponseBody::new(Body::Proxied(arriving.boxed()), &CancellationToken::new(), Some(resources));
        assert!(body.frame().now_or_never().is_none(), "the Pod has sent nothing");
        let long = 10 * crate::limits::STALL_TIME;
        assert!(tokio::time::timeout(long, progress.stalled()).await.is_err());
        pieces.unbounded_send(Ok(Bytes::from_static(b"piece"))).unwrap();
        let unread = body.frame().await.unwrap();
        tokio::time::timeout(long, progress.stalled()).await.expect("nobody asks for the next piece");
        drop((unread, body));
    }
}
