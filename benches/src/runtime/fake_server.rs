//! A server that costs nothing, so that only the client's side is measured: ConfigMaps encoded in advance, listed in
//! pages or as a stream, and a watch of pushed events. Other kinds are empty; one of them may fail.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;
use tokio::sync::broadcast;

/// Events per chunk of a streamed list: what a real connection delivers in one read.
const EVENTS_PER_CHUNK: usize = 64;

/// The maximum number of events pushed but not yet read by the watch. The measurements push one at a time or a few
/// thousand together.
const PUSHED_MAX: usize = 1 << 14;

/// The objects, as items of lists, and a way to push events.
#[derive(Clone)]
pub(super) struct FakeServer(Arc<FakeServerState>);

struct FakeServerState {
    objects: ServedObjects,
    revision: AtomicUsize,
    events: broadcast::Sender<Bytes>,
    /// Requests for paths with this ending are refused.
    broken: Option<&'static str>,
}

/// The objects that are served.
enum ServedObjects {
    /// Encoded in advance, so that serving them costs next to nothing.
    Encoded(Vec<String>),
    /// This many, encoded when they are requested: they take no memory.
    Made(usize),
}

impl ServedObjects {
    fn len(&self) -> usize {
        match self {
            Self::Encoded(objects) => objects.len(),
            Self::Made(count) => *count,
        }
    }

    fn get(&self, number: usize) -> Cow<'_, str> {
        match self {
            Self::Encoded(objects) => Cow::Borrowed(&objects[number]),
            Self::Made(_) => Cow::Owned(object(number, number + 1)),
        }
    }
}

type FakeBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl FakeServer {
    /// Serves `count` small ConfigMaps in ten namespaces.
    pub(super) fn new(count: usize) -> Self {
        Self::with(count, None)
    }

    /// Serves the same objects, and answers 500 for paths that end in `broken`.
    pub(super) fn with(count: usize, broken: Option<&'static str>) -> Self {
        let objects = (0..count).map(|number| object(number, number + 1)).collect();
        Self::serving(ServedObjects::Encoded(objects), broken)
    }

    /// Serves the same objects without using this process's memory.
    pub(super) fn without_memory(count: usize) -> Self {
        Self::serving(ServedObjects::Made(count), None)
    }

    fn serving(objects: ServedObjects, broken: Option<&'static str>) -> Self {
        let revision = AtomicUsize::new(objects.len() + 1);
        Self(Arc::new(FakeServerState {
            objects,
            revision,
            events: broadcast::channel(PUSHED_MAX).0,
            broken,
        }))
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Returns whether any client watches the ConfigMaps.
    pub(super) fn is_watched(&self) -> bool {
        self.0.events.receiver_count() > 0
    }

    /// Sends a change event for this object to the watch.
    pub(super) fn push(&self, number: usize) {
        let revision = self.0.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object(number, revision));
        // There is no receiver while a runtime is between two watches; the measurement counts what is lost.
        let _ = self.0.events.send(line.into());
    }

    fn answer(&self, path: &str, query: &str) -> Response<FakeBody> {
        if self.0.broken.is_some_and(|broken| path.ends_with(broken)) {
            let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"broken on purpose","reason":"InternalError","code":500}"#;
            let mut response = Response::new(body(once(Bytes::from_static(status.as_bytes()))));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            return response;
        }
        let has = |text: &str| query.contains(text);
        let is_main = path.ends_with("/configmaps");
        let chunks = match (has("watch=true"), has("sendInitialEvents=true")) {
            (true, true) => self.initial_events(is_main).chain(self.pushed_events(is_main)).boxed(),
            (true, false) => self.pushed_events(is_main),
            (false, _) => once(self.page(is_main, query)),
        };
        Response::new(body(chunks))
    }

    /// Streams the events pushed from now on.
    fn pushed_events(&self, is_main: bool) -> BoxStream<'static, Bytes> {
        if !is_main {
            return stream::pending().boxed();
        }
        stream::unfold(self.0.events.subscribe(), |mut events| async {
            events.recv().await.ok().map(|line| (line, events))
        })
        .boxed()
    }

    fn initial_events(&self, is_main: bool) -> BoxStream<'static, Bytes> {
        let shared = self.0.clone();
        let count = if is_main { shared.objects.len() } else { 0 };
        let chunk = move |number: usize| {
            let from = number * EVENTS_PER_CHUNK;
            let to = (from + EVENTS_PER_CHUNK).min(count);
            let lines = (from..to)
                .map(|number| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", shared.objects.get(number)));
            Bytes::from(lines.collect::<String>())
        };
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n",
            self.0.revision.load(Ordering::Relaxed)
        );
        let events = stream::iter((0..count.div_ceil(EVENTS_PER_CHUNK)).map(chunk));
        events.chain(stream::once(std::future::ready(Bytes::from(end)))).boxed()
    }

    fn page(&self, is_main: bool, query: &str) -> Bytes {
        let field = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name))?;
            value.parse::<usize>().ok()
        };
        let count = if is_main { self.0.objects.len() } else { 0 };
        let from = field("continue=").unwrap_or(0);
        let to = field("limit=").map_or(count, |limit| (from + limit).min(count));
        let next = if to < count { to.to_string() } else { String::new() };
        let head = format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}","continue":"{next}"}},"items":["#,
            self.0.revision.load(Ordering::Relaxed)
        );
        let objects: Vec<Cow<'_, str>> = (from..to).map(|number| self.0.objects.get(number)).collect();
        Bytes::from(head + &objects.join(",") + "]}")
    }
}

fn object(number: usize, revision: usize) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"object-{number}","namespace":"namespace-{}","uid":"00000000-0000-4000-8000-{number:012}","resourceVersion":"{revision}","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:key":{{}}}}}}}}]}},"data":{{"key":"value"}}}}"#,
        number % 10,
    )
}

fn once(chunk: Bytes) -> BoxStream<'static, Bytes> {
    stream::once(std::future::ready(chunk)).boxed()
}

fn body(chunks: BoxStream<'static, Bytes>) -> FakeBody {
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))).boxed())
}

impl tower::Service<Request<Body>> for FakeServer {
    type Response = Response<FakeBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = self.answer(request.uri().path(), request.uri().query().unwrap_or_default());
        Box::pin(std::future::ready(Ok(response)))
    }
}
