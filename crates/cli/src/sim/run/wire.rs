//! The path of the operator's requests: gives each request its address, records it, and disturbs it if a fault has that
//! address. Requests from all others go straight to the API.
//!
//! **Invariant:** an address consists of the verb, the object and an ordinal, never of time, so the same faults affect
//! the same requests in every run in which the operator makes them.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Identity;
use homeostat_apiserver::body::Body;
use homeostat_apiserver::serve::{ConnectionLoss, RequestBody, RequestHandler};
use homeostat_core::canonical_state::resource_of_key;
use homeostat_core::{RequestTarget, RequestVerb, Revision};
use homeostat_store::{Memory, Store as _};
use http::request::Parts;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower::ServiceExt as _;

use super::fault::Fault;
use super::request_address::request_target;
use super::sim_server::OPERATOR_USER;
use super::watch_tap;
pub(super) use super::wire_log::WireLog;
use super::wire_log::{CallTraits, StartedCall};

/// The API with the wire in front of it.
#[derive(Clone)]
pub(super) struct WireService {
    api: ApiServer,
    store: Arc<Memory>,
    wire: Arc<WireLog>,
}

impl RequestHandler for WireService {
    fn handle(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Body>> {
        let is_operator = request.extensions().get::<Identity>().is_some_and(|who| who.name == OPERATOR_USER);
        if is_operator {
            Box::pin(self.clone().answer(request))
        } else {
            RequestHandler::handle(&self.api, request)
        }
    }
}

impl WireService {
    /// Puts the wire in front of the API on this store.
    pub(super) fn new(api: ApiServer, store: &Arc<Memory>, wire: Arc<WireLog>) -> Self {
        Self { api, store: Arc::clone(store), wire }
    }

    /// Answers a request from the operator.
    async fn answer(self, request: Request<RequestBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            return refusal(400, "BadRequest", "the body could not be read");
        };
        let body = body.to_bytes();
        let query = parts.uri.query().unwrap_or_default();
        let target = request_target(&parts.method, parts.uri.path(), query, &body);
        let traits = CallTraits {
            has_resource_version: contains(&body, b"resourceVersion"),
            takes_any_version: query.split('&').any(|part| part == "resourceVersion=0"),
        };
        let call = self.wire.begin_call(&target, traits, self.store.snapshot().revision());
        let response = self.disturb(&call, &target, parts, body).await;
        self.wire.end_call(&call, response.status().as_u16(), self.store.snapshot().revision());
        if target.verb == RequestVerb::Watch && response.status().is_success() {
            return watch_tap::follow(response, target, &self.wire);
        }
        response
    }

    /// Answers the request according to its fault.
    async fn disturb(
        &self,
        call: &StartedCall,
        target: &RequestTarget,
        parts: Parts,
        body: Bytes,
    ) -> Response<Body> {
        match &call.fault {
            Some(Fault::KillBefore) => {
                self.wire.kill_operator();
                timed_out()
            }
            Some(Fault::KillAfter) => {
                self.forward(parts, body).await;
                self.wire.kill_operator();
                timed_out()
            }
            Some(Fault::Refuse { code: 429 }) => too_many_requests(),
            Some(Fault::Refuse { .. } | Fault::Outage { .. }) => {
                refusal(500, "InternalError", "Internal error occurred: simulated fault")
            }
            Some(Fault::Conflict) => conflict(target),
            Some(Fault::TimeoutUndone) => timed_out(),
            Some(Fault::TimeoutDone) => {
                self.forward(parts, body).await;
                timed_out()
            }
            Some(Fault::LoseRequest) => broken_connection(),
            Some(Fault::LoseAnswer) => {
                self.forward(parts, body).await;
                broken_connection()
            }
            Some(Fault::StaleList { changes }) => {
                let parts = self.outdate(parts, target, *changes);
                self.forward(parts, body).await
            }
            // Other faults do not concern requests.
            _ => self.forward(parts, body).await,
        }
    }

    async fn forward(&self, parts: Parts, body: Bytes) -> Response<Body> {
        let request = Request::from_parts(parts, Full::new(body));
        let Ok(response) = self.api.clone().oneshot(request).await;
        response
    }

    /// Makes a list ask for the state before the last changes to its resource.
    fn outdate(&self, mut parts: Parts, target: &RequestTarget, changes: usize) -> Parts {
        let resource = target.resource();
        let Some(revision) = self.revision_before(&resource, changes) else { return parts };
        let query = parts.uri.query().unwrap_or_default();
        let others = query.split('&').filter(|part| !part.starts_with("resourceVersion"));
        let query: Vec<&str> = others.filter(|part| !part.is_empty()).collect();
        let asked = format!(
            "{}?{}&resourceVersion={revision}&resourceVersionMatch=Exact",
            parts.uri.path(),
            query.join("&")
        );
        if let Ok(uri) = asked.parse::<Uri>() {
            parts.uri = uri;
        }
        parts
    }

    fn revision_before(&self, resource: &str, changes: usize) -> Option<Revision> {
        let all = self.store.changes_after(self.wire.born()).ok()?;
        let mut of_resource = all.iter().rev().filter(|event| resource_of_key(&event.key) == resource);
        let oldest = of_resource.nth(changes.checked_sub(1)?)?;
        Some(Revision::new(oldest.revision.get() - 1))
    }
}

fn contains(body: &[u8], word: &[u8]) -> bool {
    body.windows(word.len()).any(|part| part == word)
}

fn timed_out() -> Response<Body> {
    refusal(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
}

fn too_many_requests() -> Response<Body> {
    let text = "Too many requests, please try again later.";
    let mut response = refusal(429, "TooManyRequests", text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn conflict(target: &RequestTarget) -> Response<Body> {
    let text = format!(
        "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest \
         version and try again",
        target.resource(),
        target.name
    );
    refusal(409, "Conflict", &text)
}

fn refusal(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns a response that is never sent, because its connection breaks.
fn broken_connection() -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = http::StatusCode::BAD_GATEWAY;
    response.extensions_mut().insert(ConnectionLoss);
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[tokio::test]
    async fn refusals_are_what_kube_apiserver_answers() {
        let path = "/apis/demo.dev/v1/namespaces/a/pages/home";
        let target = request_target(&Method::PUT, path, "", b"");
        let rows = [
            (too_many_requests(), 429, "TooManyRequests"),
            (timed_out(), 504, "Timeout"),
            (conflict(&target), 409, "Conflict"),
        ];
        for (response, code, reason) in rows {
            assert_eq!(response.status().as_u16(), code);
            assert_eq!(response.headers().contains_key(header::RETRY_AFTER), code == 429);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!(reason)));
            assert_eq!(status["code"], code);
        }
    }
}
