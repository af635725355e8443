//! The body of a request on its way in: given a time to arrive in, so that a trickle of bytes holds nothing for long.
//!
//! A body nobody wants (the request was refused before it was read) is read to its end and thrown away, within
//! limits: a client of HTTP/1.1 that still sends when the connection closes never sees the refusal.
//!
//! It does not limit the size: whoever collects it does, and answers 413 in the API's own words.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;

use super::limits::{BODY_TIME, LEFTOVER_BYTES_MAX, LEFTOVER_TIME};

/// Why a body did not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It took too long.
    #[error("the request body did not arrive within {} s", BODY_TIME.as_secs())]
    TooSlow,
    /// The connection broke, or what came is not HTTP.
    #[error("the request body did not arrive: {0}")]
    Broken(#[source] hyper::Error),
}

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    /// Taken when dropped before its end.
    incoming: Option<Incoming>,
    /// Runs from the first time we had to wait.
    deadline: Option<Pin<Box<Sleep>>>,
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
        request.map(|incoming| Self { incoming: Some(incoming), deadline: None, leftovers })
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
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(end) => {
                self.incoming = None;
                Poll::Ready(end.map(|end| end.map_err(BodyError::Broken)))
            }
            Poll::Pending => {
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(BODY_TIME)));
                deadline.as_mut().poll(cx).map(|()| Some(Err(BodyError::TooSlow)))
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
