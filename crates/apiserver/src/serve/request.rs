//! The body of a request on its way in: given a time to arrive in, so that a trickle of bytes holds nothing for long.
//!
//! It does not limit the size: whoever collects it does, and answers 413 in the API's own words.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::limits::BODY_TIME;

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
    incoming: Incoming,
    /// Runs from the first time we had to wait.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl From<Incoming> for RequestBody {
    fn from(incoming: Incoming) -> Self {
        Self { incoming, deadline: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken))),
            Poll::Pending => {
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(BODY_TIME)));
                deadline.as_mut().poll(cx).map(|()| Some(Err(BodyError::TooSlow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
