//! A server that costs nothing: ConfigMaps encoded beforehand, listed in pages or as a stream, and a watch that stays
//! silent or repeats what it is told. What is measured is the client's side.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;

/// Events per chunk of a streamed list: what a real connection delivers in one read.
const EVENTS_PER_CHUNK: usize = 64;

/// The objects, as items of lists.
#[derive(Clone)]
pub(super) struct Fake(Arc<Vec<String>>);

type FakeBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl Fake {
    /// `count` small ConfigMaps in ten namespaces.
    pub(super) fn new(count: usize) -> Self {
        let object = |number: usize| {
            format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"object-{number}","namespace":"namespace-{}","uid":"00000000-0000-4000-8000-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:key":{{}}}}}}}}]}},"data":{{"key":"value"}}}}"#,
                number % 10,
                number + 1,
            )
        };
        Self(Arc::new((0..count).map(object).collect()))
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    fn answer(&self, query: &str) -> FakeBody {
        let has = |text: &str| query.contains(text);
        if has("watch=true") && has("sendInitialEvents=true") {
            return body(self.stream());
        }
        if has("watch=true") {
            return body(stream::pending().boxed());
        }
        body(stream::once(std::future::ready(self.page(query))).boxed())
    }

    fn stream(&self) -> BoxStream<'static, Bytes> {
        let objects = self.0.clone();
        let chunks = objects.len().div_ceil(EVENTS_PER_CHUNK);
        let chunk = move |number: usize| {
            let from = number * EVENTS_PER_CHUNK;
            let to = (from + EVENTS_PER_CHUNK).min(objects.len());
            let lines = objects[from..to]
                .iter()
                .map(|object| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
            Bytes::from(lines.collect::<String>())
        };
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n",
            self.0.len() + 1
        );
        let events = stream::iter((0..chunks).map(chunk));
        events.chain(stream::once(std::future::ready(Bytes::from(end)))).chain(stream::pending()).boxed()
    }

    fn page(&self, query: &str) -> Bytes {
        let field = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name))?;
            value.parse::<usize>().ok()
        };
        let from = field("continue=").unwrap_or(0);
        let to = field("limit=").map_or(self.0.len(), |limit| (from + limit).min(self.0.len()));
        let next = if to < self.0.len() { to.to_string() } else { String::new() };
        let head = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{}","continue":"{next}"}},"items":["#,
            self.0.len() + 1
        );
        Bytes::from(head + &self.0[from..to].join(",") + "]}")
    }
}

fn body(chunks: BoxStream<'static, Bytes>) -> FakeBody {
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))).boxed())
}

impl tower::Service<Request<Body>> for Fake {
    type Response = Response<FakeBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = Response::new(self.answer(request.uri().query().unwrap_or_default()));
        Box::pin(std::future::ready(Ok(response)))
    }
}
