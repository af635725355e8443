//! Provides an API server in this process and a client that speaks in terms of HTTP: method, path, body; code, JSON.
//!
//! The background tasks run too, so the work after a request (garbage collection, namespaces, definitions) happens by
//! itself; tests wait for it with [`TestServer::until`], never by sleeping for a guessed time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Identity;
use homeostat_apiserver::body::Body;
use homeostat_apiserver::server::Builder;
use homeostat_store::{Memory, SharedStore};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;
use tower::ServiceExt as _;

/// How long the work after a request may take. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A running server; stops when dropped.
#[derive(Clone)]
pub(crate) struct TestServer {
    server: ApiServer,
    stop: Arc<DropGuard>,
}

/// A response from the server.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the body, if the code is the expected one.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_on(Arc::new(Memory::new())).await
    }

    pub(crate) async fn start_on(store: SharedStore) -> Self {
        Self::start_with(ApiServer::builder(store)).await
    }

    pub(crate) async fn start_with(builder: Builder) -> Self {
        let (server, background) = builder.build().await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(background.run(stop.clone()));
        let plane = Self { server, stop: Arc::new(stop.drop_guard()) };
        plane.until("/api/v1/namespaces/default/serviceaccounts/default", |answer| answer.code == 200).await;
        plane
    }

    /// Returns the same server for another user.
    pub(crate) fn acting_as(&self, name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.into()).collect();
        let identity = Identity { name: name.into(), groups, ..Identity::default() };
        Self { server: self.server.acting_as(identity), stop: Arc::clone(&self.stop) }
    }

    async fn send(&self, method: &str, path: &str, media: &str, accept: &str, body: Bytes) -> Response<Body> {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        let request = request.header("accept", accept).body(Full::new(body)).unwrap();
        self.server.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request as every client does.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let (media, bytes) = match body {
            Value::Null => ("", Bytes::new()),
            body => ("application/json", body.to_string().into()),
        };
        read(self.send(method, path, media, "application/json", bytes).await).await
    }

    /// Returns the body of a response without reading it.
    pub(crate) async fn unread(&self, path: &str) -> Body {
        self.send("GET", path, "", "application/json", Bytes::new()).await.into_body()
    }

    /// Sends a request whose client disconnects at the first wait. A fast disk may respond before that.
    pub(crate) fn ask_and_leave(&self, method: &str, path: &str, body: &Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        drop(self.send(method, path, "application/json", "application/json", body).now_or_never());
    }

    /// Sends a request with this body.
    pub(crate) async fn raw(&self, method: &str, path: &str, media: &str, body: &str) -> Answer {
        read(self.send(method, path, media, "application/json", body.to_owned().into()).await).await
    }

    /// Sends a request with this body in one media type, and requests the response in another.
    pub(crate) async fn bytes(
        &self,
        method: &str,
        path: &str,
        (media, accept): (&str, &str),
        body: Vec<u8>,
    ) -> Answer {
        read(self.send(method, path, media, accept, body.into()).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Value::Null).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        read(self.send("GET", path, "", accept, Bytes::new()).await).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask("PUT", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, body: Value) -> Answer {
        self.raw("PATCH", path, media, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, Value::Null).await
    }

    /// Polls until the response meets the condition.
    pub(crate) async fn until(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool) -> Answer {
        let looking = async {
            loop {
                let answer = self.get(path).await;
                if is_wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(answer) => answer,
            Err(elapsed) => panic!("{path} is still {} ({elapsed})", self.get(path).await.body),
        }
    }

    /// Polls until the object is gone.
    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |answer| answer.code == 404).await;
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str) -> Events {
        let response = self.send("GET", path, "", "application/json", Bytes::new()).await;
        assert_eq!(response.status(), 200);
        Events { body: Box::pin(response.into_body()), rest: Vec::new() }
    }
}

async fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { code: parts.status.as_u16(), headers: parts.headers, body }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Pin<Box<Body>>,
    rest: Vec<u8>,
}

impl Events {
    /// Returns the next event; `None` if the server ended the watch.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).collect::<Vec<_>>();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let mut body = self.body.as_mut();
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
            let frame = frame.expect("an event in time")?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Returns the next events as `TYPE name`.
    pub(crate) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < count {
            let event = self.next().await.expect("more events");
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
            names.push(format!("{} {name}", event["type"].as_str().unwrap()));
        }
        names
    }
}
