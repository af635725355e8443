//! The body of a request on its way in: given a time to arrive in, so that a trickle of bytes holds nothing for long.
//!
//! A body nobody wants (the request was refused before it was read) is read to its end and thrown away, within
//! limits: a client of HTTP/1.1 that still sends when the connection closes never sees the refusal.
//!
//! It does not limit the size: whoever collects it does, and answers 413 in the API's own words.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::bodies::BodyRoom;
use super::limits::{BODY_LATE_TIME, BODY_TIME, LEFTOVER_BYTES_MAX, LEFTOVER_TIME};
use super::seats::{Place, Seat};

/// Why a body did not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It took too long.
    #[error("the request body did not arrive within {} s", BODY_TIME.as_secs())]
    TooSlow,
    /// It was late when there was no room for others.
    #[error("the request body did not arrive within {} s, and others needed its room", BODY_LATE_TIME.as_secs())]
    GaveWay,
    /// The user's bodies, or all, hold as much as they may.
    #[error("too many bytes of request bodies are held, please try again later")]
    NoRoom,
    /// The connection broke, or what came is not HTTP.
    #[error("the request body did not arrive: {0}")]
    Broken(#[source] hyper::Error),
}

/// The body of a request.
pub struct RequestBody {
    /// Taken when dropped before its end.
    incoming: Option<Incoming>,
    /// Where its request sits.
    place: Option<Place>,
    /// Where its bytes are counted.
    room: Option<Arc<BodyRoom>>,
    /// Runs from the first time we had to wait.
    patience: Option<BoxFuture<'static, BodyError>>,
    /// Where leftovers are read to their end; `None`: they need not be.
    leftovers: Option<TaskTracker>,
}

impl RequestBody {
    /// The body of a request; `leftovers` owns the tasks that throw away what nobody reads.
    pub(crate) fn new(request: Request<Incoming>, leftovers: &TaskTracker) -> Request<Self> {
        // HTTP/2 refuses single streams, and who waits to be asked for the body has not sent it.
        let is_at_risk = request.version() <= Version::HTTP_11
            && !request.body().is_end_stream()
            && !request.headers().contains_key(header::EXPECT);
        let leftovers = is_at_risk.then(|| leftovers.clone());
        request.map(|incoming| Self {
            incoming: Some(incoming),
            place: None,
            room: None,
            patience: None,
            leftovers,
        })
    }

    /// Notes where its bytes are counted.
    pub(crate) fn count_in(&mut self, room: Option<Arc<BodyRoom>>) {
        self.room = room;
    }

    /// Notes which seat it gives up when it is late.
    pub(crate) fn sit(&mut self, seat: Option<&Seat>) {
        self.place = seat.filter(|_| !self.is_end_stream()).map(Seat::place);
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// Ends when a body has not come in time.
async fn patience(place: Option<Place>) -> BodyError {
    let end = Instant::now() + BODY_TIME;
    tokio::time::sleep(BODY_LATE_TIME).await;
    let late = place.map(Place::late);
    let told_to_leave = async {
        match &late {
            Some(late) => late.told_to_leave().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = told_to_leave => BodyError::GaveWay,
        () = tokio::time::sleep_until(end) => BodyError::TooSlow,
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(incoming), Some(leftovers)) = (self.incoming.take(), &self.leftovers)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            leftovers.spawn(throw_away(incoming));
        }
    }
}

async fn throw_away(incoming: Incoming) {
    let limited = Limited::new(incoming, LEFTOVER_BYTES_MAX);
    let mut limited = std::pin::pin!(limited);
    let all = async { while let Some(Ok(_)) = limited.frame().await {} };
    // Whether it came to its end or not, the connection is done with it.
    let _ = tokio::time::timeout(LEFTOVER_TIME, all).await;
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let fits = self.room.as_ref().is_none_or(|room| room.grow(bytes));
                Poll::Ready(Some(if fits { Ok(frame) } else { Err(BodyError::NoRoom) }))
            }
            Poll::Ready(Some(Err(error))) => {
                self.incoming = None;
                Poll::Ready(Some(Err(BodyError::Broken(error))))
            }
            Poll::Ready(None) => {
                self.incoming = None;
                // From here on it is not late any more. Was it sent away before, then its seat is another's.
                self.patience = None;
                let has_left = self.place.take().is_some_and(|place| place.has_left());
                Poll::Ready(has_left.then_some(Err(BodyError::GaveWay)))
            }
            Poll::Pending => {
                let body = &mut *self;
                let patience = body.patience.get_or_insert_with(|| patience(body.place.clone()).boxed());
                patience.poll_unpin(cx).map(|error| Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
