//! The cluster of the measurement: idle ConfigMaps, served from memory to one list and a silent watch. It accepts no
//! writes, because an idle world makes none.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;

/// Objects per chunk of a streamed list: what a real connection delivers in one read.
const CHUNK: usize = 64;

/// The objects, encoded.
#[derive(Clone)]
pub(super) struct FakeCluster(Arc<Vec<String>>);

type Answer = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl FakeCluster {
    /// Creates this many small ConfigMaps in ten namespaces, each with this finalizer.
    pub(super) fn new(size: usize, finalizer: &str) -> Self {
        let object = |number: usize| {
            format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"object-{number}","namespace":"namespace-{}","uid":"00000000-0000-4000-8000-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["{finalizer}"]}},"data":{{"key":"value"}}}}"#,
                number % 10,
                number + 1,
            )
        };
        Self(Arc::new((0..size).map(object).collect()))
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Streams every object, then the end of the initial events, then nothing.
    fn stream(&self) -> BoxStream<'static, Bytes> {
        let objects = self.0.clone();
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n",
            objects.len() + 1
        );
        let chunk = move |number: usize| {
            let lines = objects.iter().skip(number * CHUNK).take(CHUNK);
            let lines = lines.map(|object| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
            Bytes::from(lines.collect::<String>())
        };
        let chunks = (0..self.0.len().div_ceil(CHUNK)).map(chunk);
        stream::iter(chunks).chain(stream::iter([Bytes::from(end)])).chain(stream::pending()).boxed()
    }

    /// Returns the whole list in one piece, for a client that does not stream it.
    fn list(&self) -> BoxStream<'static, Bytes> {
        let head = format!(r#"{{"metadata":{{"resourceVersion":"{}"}},"items":["#, self.0.len() + 1);
        stream::iter([Bytes::from(head + &self.0.join(",") + "]}")]).boxed()
    }
}

impl tower::Service<Request<Body>> for FakeCluster {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let chunks = match (request.method() == Method::GET, query.contains("watch=true")) {
            (false, _) => stream::empty().boxed(),
            (true, true) if query.contains("sendInitialEvents=true") => self.stream(),
            (true, true) => stream::pending().boxed(),
            (true, false) => self.list(),
        };
        let body = StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))).boxed());
        let mut response = Response::new(body);
        if request.method() != Method::GET {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        Box::pin(std::future::ready(Ok(response)))
    }
}
