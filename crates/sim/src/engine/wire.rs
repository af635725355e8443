//! The way from an operator to the API server: a tower service that parks every request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use kube::client::Body;
use tokio::sync::{mpsc, oneshot};

use super::parking::{ApiCall, ParkedCall, ParkedWork, Parking, ProcessNumber};

/// The client side of one process.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) process: ProcessNumber,
    pub(crate) parking: Arc<Parking>,
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<AnswerBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { process, parking } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let (answer, answered) = oneshot::channel();
            let request = Request::from_parts(head, bytes);
            parking.park(ParkedCall { process, work: ParkedWork::Api(ApiCall { request, answer }) });
            match answered.await {
                Ok(answer) => answer,
                // Its process crashed: what still runs of it gets no answer any more.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// The body of an answer to the operator.
pub(crate) enum AnswerBody {
    Whole(Option<Bytes>),
    Watch(mpsc::UnboundedReceiver<Bytes>),
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }
}
