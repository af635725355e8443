//! What every request passes before the API sees it: who asks, is there room, does it end in time.
//!
//! **Invariant:** a panic in the API is that request's 500; long-running requests (watches, logs, exec) take no room
//! from short ones.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::{Body as _, Incoming};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::held::Room;
use super::limits::{
    ANSWER_TIME, BODY_BYTES_MAX, READS_MAX, RETRY_AFTER_S, USER_READS_MAX, USER_WRITES_MAX, WRITES_MAX,
};
use super::progress::Progress;
use super::request::RequestBody;
use super::response::{Counted, ResponseBody};
use super::seats::{Seat, Seats};
use crate::auth::{Authenticator, Identity, Peer};
use crate::body::Body;
use crate::status::Status;

/// What is served: the API, or anything that answers requests like it. Finds an [`Identity`](crate::auth::Identity)
/// in the extensions of each request.
pub trait Handler:
    tower::Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Handler for S where
    S: tower::Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Stands before the handler.
pub(crate) struct Gate<H> {
    handler: H,
    authenticator: Arc<Authenticator>,
    reads: Arc<Seats>,
    writes: Arc<Seats>,
    room: Room,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl<H: Handler> Gate<H> {
    /// `tasks` owns what outlives a request for a moment; `stop` ends watches.
    pub(crate) fn new(
        handler: H,
        authenticator: Arc<Authenticator>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let (reads, writes) =
            (Seats::new(USER_READS_MAX, READS_MAX), Seats::new(USER_WRITES_MAX, WRITES_MAX));
        Self { handler, authenticator, reads, writes, room: Room::default(), tasks, stop }
    }

    /// Answers one request of a connection with this peer.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        progress: &Arc<Progress>,
    ) -> Response<ResponseBody> {
        let mut request = RequestBody::new(request, &self.tasks);
        let (response, seat) = match self.admit(&request, peer) {
            Ok((identity, seat)) => {
                let user = identity.name.clone();
                request.body_mut().sit(seat.as_ref());
                request.extensions_mut().insert(identity);
                let response = self.handle(request, seat.is_none()).await;
                (self.hold(response, &user), seat)
            }
            Err(refusal) => (self.refused(*refusal), None),
        };
        let counted = seat.map(|seat| Counted { under_way: progress.begin(), _seat: seat });
        response.map(|body| ResponseBody::new(body, &self.stop, counted))
    }

    /// Who asks, and the room the request takes: none for long-running ones. Or the refusal.
    fn admit(
        &self,
        request: &Request<RequestBody>,
        peer: &Peer,
    ) -> Result<(Identity, Option<Seat>), Box<Response<Body>>> {
        let identity = self
            .authenticator
            .authenticate(peer, request.headers())
            .map_err(|status| Box::new(refusal(&status)))?;
        if request.body().size_hint().lower() > BODY_BYTES_MAX {
            let text = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Err(Box::new(refusal(&Status::too_large(text))));
        }
        if is_long_running(request.method(), request.uri().path(), request.uri().query().unwrap_or_default())
        {
            return Ok((identity, None));
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let room = if is_read { &self.reads } else { &self.writes };
        match room.take(&identity.name) {
            Some(seat) => Ok((identity, Some(seat))),
            None => Err(Box::new(too_many())),
        }
    }

    async fn handle(&self, request: Request<RequestBody>, is_long_running: bool) -> Response<Body> {
        let answer = AssertUnwindSafe(self.handler.clone().oneshot(request)).catch_unwind();
        let answer = if is_long_running {
            answer.await
        } else {
            let Ok(answer) = tokio::time::timeout(ANSWER_TIME, answer).await else {
                let slow = Status::timeout("request did not complete within the allotted timeout");
                return self.refused(refusal(&slow));
            };
            answer
        };
        match answer {
            Ok(Ok(response)) => response,
            Err(_) => {
                self.refused(refusal(&Status::internal("the request made the server panic; see its log")))
            }
        }
    }

    /// The answer, if there is room to keep it until the client has read it.
    fn hold(&self, response: Response<Body>, user: &str) -> Response<Body> {
        let (head, body) = response.into_parts();
        match self.room.hold(body, user) {
            Some(body) => Response::from_parts(head, body),
            None => self.refused(too_many()),
        }
    }

    /// Counts a refusal.
    fn refused(&self, response: Response<Body>) -> Response<Body> {
        self.authenticator.refusals.add(response.status().as_u16());
        response
    }
}

/// Watches, and connections to a Pod: they last as long as the client wants.
fn is_long_running(method: &Method, path: &str, query: &str) -> bool {
    const SUBRESOURCES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
    let is_watch = query.split('&').any(|pair| match pair.split_once('=') {
        None => pair == "watch",
        Some(("watch", value)) => !matches!(value, "false" | "0"),
        Some(("follow", value)) => matches!(value, "true" | "1"),
        Some(_) => false,
    });
    if method == Method::GET && (is_watch || path.starts_with("/api/v1/watch/")) {
        return true;
    }
    // /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE[/…]
    let mut segments = path.split('/').skip(1);
    segments.next() == Some("api")
        && segments.nth(1) == Some("namespaces")
        && segments.nth(3).is_some_and(|subresource| SUBRESOURCES.contains(&subresource))
}

fn refusal(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{}\n", status.to_text())));
    *response.status_mut() = http::StatusCode::from_u16(status.code).expect("a status has a code of HTTP");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// kube-apiserver's filter answers in plain text; clients look at the code and the header.
fn too_many() -> Response<Body> {
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n".to_owned()));
    *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_and_pod_connections_are_long_running() {
        let check = |uri: &str, expected: bool| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            assert_eq!(is_long_running(&Method::GET, path, query), expected, "{uri}");
        };
        assert!(!is_long_running(&Method::POST, "/api/v1/namespaces/a/pods", "watch=1"));
        assert!(is_long_running(&Method::POST, "/api/v1/namespaces/a/pods/x/exec", ""));
        check("/api/v1/pods", false);
        check("/api/v1/pods?watch=1", true);
        check("/api/v1/pods?limit=1&watch=maybe", true);
        check("/api/v1/pods?watch", true);
        check("/api/v1/pods?watch=false", false);
        check("/api/v1/pods?watching=true", false);
        check("/api/v1/watch/pods", true);
        check("/api/v1/namespaces/a/pods/x/log", true);
        check("/api/v1/namespaces/a/pods/x/exec", true);
        check("/api/v1/namespaces/a/services/x/proxy/a/b", true);
        check("/api/v1/namespaces/a/pods/log", false);
        check("/apis/apps/v1/namespaces/a/deployments/x/scale", false);
    }
}
