//! A whole API server in memory, for targets that need one: requests in, codes and JSON out.
//!
//! It has one thread, no sockets and seeded randomness, and does not run its background work, so that the same requests
//! get the same answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Identity;
use homeostat_core::{Clock, Entropy};
use homeostat_store::Memory;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// How long to wait for the rest of an answer: a watch never ends.
const BODY_PATIENCE: Duration = Duration::from_millis(200);
/// The seed of the uids and names that the server generates.
const SERVER_SEED: u64 = 1;

/// A running server.
pub(crate) struct FuzzServer {
    pub(crate) runtime: Runtime,
    server: ApiServer,
}

/// An answer; the body is null if it is not JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl FuzzServer {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the machine has room for a runtime");
        let builder = ApiServer::builder(Arc::new(Memory::new()));
        let builder = builder.clock(Clock::system()).entropy(Entropy::seeded(SERVER_SEED));
        let (server, _) = runtime.block_on(builder.build()).expect("memory takes every write");
        Self { runtime, server }
    }

    /// Sends a request as the administrator. Returns `None` if it is not a valid HTTP request.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Option<Answer> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(target).header("content-type", kind);
        Some(self.send(&self.server, request.body(Full::new(Bytes::from(text))).ok()?))
    }

    /// Sends a request as a user without any rights.
    pub(crate) fn ask_as_nobody(&self, method: &str, target: &str) -> Option<Answer> {
        let nobody = self.server.acting_as(Identity { name: "nobody".into(), ..Identity::default() });
        let request = Request::builder().method(method).uri(target).body(Full::new(Bytes::new())).ok()?;
        Some(self.send(&nobody, request))
    }

    fn send(&self, server: &ApiServer, request: Request<Full<Bytes>>) -> Answer {
        self.runtime.block_on(async {
            let response = match server.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let (parts, body) = response.into_parts();
            let read = tokio::time::timeout(BODY_PATIENCE, body.collect()).await;
            let bytes = read
                .map(|body| body.map(http_body_util::Collected::to_bytes).unwrap_or_default())
                .unwrap_or_default();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            Answer { code: parts.status.as_u16(), headers: parts.headers, body }
        })
    }

    /// Creates an object that a target needs.
    pub(crate) fn create(&self, path: &str, object: &Value) {
        let answer = self.ask("POST", path, object).expect("a fixed path");
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
}
