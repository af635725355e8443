//! A client whose watches are heard late: what an API server behind on its watch cache, or a busy network, does to an
//! operator. Everything else is as fast as ever, so writes and their answers overtake what the watch shows.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

/// How late watches are heard. Clones share it, so it may change while operators run.
#[derive(Clone, Default)]
pub(crate) struct Lag(Arc<Mutex<Duration>>);

impl Lag {
    pub(crate) fn set(&self, lag: Duration) {
        *self.0.lock().unwrap() = lag;
    }

    fn get(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// Sends everything through `inner` and holds back what its watches say.
pub(crate) fn slow(inner: &Client, lag: &Lag) -> Client {
    Client::new(Slow { inner: inner.clone(), lag: lag.clone() }, "default")
}

#[derive(Clone)]
struct Slow {
    inner: Client,
    lag: Lag,
}

type Chunks = Pin<Box<dyn futures::Stream<Item = std::io::Result<Frame<bytes::Bytes>>> + Send>>;

impl tower::Service<Request<Body>> for Slow {
    type Response = Response<StreamBody<Chunks>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, lag } = self.clone();
        Box::pin(async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let response = inner.send(request).await.map_err(std::io::Error::other)?;
            Ok(response.map(|body| StreamBody::new(if is_watch { later(body, lag) } else { now(body) })))
        })
    }
}

fn now(body: Body) -> Chunks {
    Box::pin(body.into_data_stream().map(|chunk| chunk.map(Frame::data).map_err(std::io::Error::other)))
}

/// Each chunk is due a lag after it came, not after the one before it was taken.
fn later(body: Body, lag: Lag) -> Chunks {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            if sender.send((Instant::now() + lag.get(), chunk)).is_err() {
                return;
            }
        }
    });
    Box::pin(futures::stream::unfold(receiver, |mut receiver| async {
        let (at, chunk) = receiver.recv().await?;
        tokio::time::sleep_until(at).await;
        Some((chunk.map(Frame::data).map_err(std::io::Error::other), receiver))
    }))
}
