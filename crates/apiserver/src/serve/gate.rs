//! What every request passes before the API sees it: who asks, is there room, does it end in time.
//!
//! **Invariant:** a panic in the API is that request's 500; long-running requests (watches, logs that are followed, exec) take
//! their room from each other and none from short ones.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::{Body as _, Incoming};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::bodies::Bodies;
use super::connection::Client;
use super::connections::{InUse, account_of};
use super::held::{Room, UserRoom};
use super::limits::{
    ANSWER_TIME, BODY_BYTES_MAX, READS_MAX, REFUSAL_BYTES, RETRY_AFTER_S, USER_READS_MAX, USER_WATCHES_MAX,
    USER_WRITES_MAX, WATCHES_MAX, WRITES_MAX,
};
use super::progress::List;
use super::request::RequestBody;
use super::response::{Counted, ResponseBody};
use super::seats::Seats;
use crate::auth::{Authenticator, Identity, MASTERS};
use crate::body::Body;
use crate::request::{Query, Target, Verb, decode_path};
use crate::status::Status;

/// What is served: the API, or anything that answers requests like it. Finds an [`Identity`](crate::auth::Identity)
/// in the extensions of each request.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Body>>;
}

impl<S> Handler for S
where
    S: tower::Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    fn handle(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Body>> {
        Box::pin(self.clone().oneshot(request).map(|Ok(response)| response))
    }
}

/// Room for requests, by their sort.
struct Pools {
    reads: Arc<Seats>,
    writes: Arc<Seats>,
    watches: Arc<Seats>,
    /// For answers that wait to be read.
    room: Room,
}

impl Pools {
    fn new() -> Self {
        Self {
            reads: Seats::new(USER_READS_MAX, READS_MAX),
            writes: Seats::new(USER_WRITES_MAX, WRITES_MAX),
            watches: Seats::new(USER_WATCHES_MAX, WATCHES_MAX),
            room: Room::default(),
        }
    }

    fn of(&self, sort: Sort) -> &Arc<Seats> {
        match sort {
            Sort::Read => &self.reads,
            Sort::Write => &self.writes,
            Sort::Watch | Sort::Connection => &self.watches,
        }
    }
}

/// Stands before the handler.
pub(crate) struct Gate {
    handler: Arc<dyn Handler>,
    authenticator: Arc<Authenticator>,
    users: Pools,
    /// Administrators have seats of their own: nobody can keep them out.
    administrators: Pools,
    bodies: Bodies,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Gate {
    /// `tasks` owns what outlives a request for a moment; `stop` ends watches.
    pub(crate) fn new(
        handler: Arc<dyn Handler>,
        authenticator: Arc<Authenticator>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let (users, administrators) = (Pools::new(), Pools::new());
        let bodies = Bodies::default();
        Self { handler, authenticator, users, administrators, bodies, tasks, stop }
    }

    /// Answers one request of a connection with this client. Gives it up if the client leaves too many refusals unread.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        client: &Client,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        let in_use = client.place.begin();
        let mut request = RequestBody::new(request, &self.tasks);
        let sort = Sort::of(request.method(), request.uri().path(), request.uri().query());
        let identity = match self.identify(&request, client) {
            Ok(identity) => identity,
            Err(refusal) => return self.refuse(*refusal, client, None, in_use),
        };
        let room = self.pools(&identity).room.of(account_of(&identity));
        let Some(seat) = self.pools(&identity).of(sort).take(&identity.name) else {
            return self.refuse(too_many(), client, Some(&room), in_use);
        };
        // Kept until the answer is there: so long the handler may keep the body.
        let has_body = !request.body().is_end_stream();
        let body_room = has_body.then(|| Arc::new(self.bodies.open(&identity)));
        request.body_mut().sit(Some(&seat));
        request.body_mut().count_in(body_room.clone());
        request.extensions_mut().insert(identity);
        let response = self.handle(request, sort.is_long_running()).await;
        drop(body_room);
        let (head, body) = response.into_parts();
        let Some(body) = room.hold_body(body) else {
            return self.refuse(too_many(), client, Some(&room), in_use);
        };
        let list = match &body {
            Body::List(_, kept) => Some(List::new(Arc::clone(kept), room.clone())),
            _ => None,
        };
        let under_way = (!sort.is_long_running()).then(|| client.progress.begin(list));
        let room = matches!(body, Body::List(..) | Body::Stream(_)).then_some(room);
        let counted = Counted { under_way, _seat: Some(seat), _in_use: in_use, _refusal: (None, None), room };
        Ok(Response::from_parts(head, ResponseBody::new(body, &self.stop, Some(counted))))
    }

    /// Who asks. Or the refusal.
    fn identify(
        &self,
        request: &Request<RequestBody>,
        client: &Client,
    ) -> Result<Identity, Box<Response<Body>>> {
        let identity = self
            .authenticator
            .authenticate(&client.peer, request.headers())
            .map_err(|status| Box::new(refusal(&status)))?;
        if client.place.known_as(&identity).is_err() {
            let mut response = too_many();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return Err(Box::new(response));
        }
        if request.body().size_hint().lower() > BODY_BYTES_MAX {
            let text = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Err(Box::new(refusal(&Status::too_large(text))));
        }
        Ok(identity)
    }

    fn pools(&self, identity: &Identity) -> &Pools {
        if identity.is_in(MASTERS) { &self.administrators } else { &self.users }
    }

    /// Sends a refusal, which takes room until it is read; resets the stream if there is none.
    fn refuse(
        &self,
        response: Response<Body>,
        client: &Client,
        room: Option<&UserRoom>,
        in_use: InUse,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        let response = self.refused(response);
        let taken = match room.filter(|_| client.place.is_known()) {
            Some(room) => room.take(REFUSAL_BYTES).map(|place| (None, Some(place))),
            None => client.place.refuse().map(|refusal| (Some(refusal), None)),
        };
        let refusal = taken.ok_or(h2::Reason::REFUSED_STREAM)?;
        let under_way = Some(client.progress.begin(None));
        let counted = Counted { under_way, _seat: None, _in_use: in_use, _refusal: refusal, room: None };
        Ok(response.map(|body| ResponseBody::new(body, &self.stop, Some(counted))))
    }

    async fn handle(&self, request: Request<RequestBody>, is_long_running: bool) -> Response<Body> {
        let answer = AssertUnwindSafe(async { self.handler.handle(request).await }).catch_unwind();
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
            Ok(response) => response,
            Err(_) => {
                self.refused(refusal(&Status::internal("the request made the server panic; see its log")))
            }
        }
    }

    /// Counts a refusal.
    fn refused(&self, response: Response<Body>) -> Response<Body> {
        self.authenticator.refusals.add(response.status().as_u16());
        response
    }
}

/// What a request is to those who watch over the room: told from the same parse that its answer uses, so that nobody passes for
/// what they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Read,
    Write,
    /// Lasts as long as the client wants, and takes its room from other watches.
    Watch,
    /// A connection to a Pod, or its log followed: likewise.
    Connection,
}

impl Sort {
    fn of(method: &Method, path: &str, query: Option<&str>) -> Self {
        if !may_be_long_running(path, query.unwrap_or_default()) {
            return Self::of_method(method);
        }
        let Ok(decoded) = decode_path(path) else { return Self::of_method(method) };
        let Target::Resource(path) = Target::parse(&decoded) else { return Self::of_method(method) };
        let query = Query::parse(query);
        if Verb::of(method, &path, &query) == Some(Verb::Watch) && path.subresource.is_empty() {
            return Self::Watch;
        }
        let is_followed = path.subresource == "log" && *method == Method::GET && query.flag("follow");
        let is_connection = matches!(&*path.subresource, "attach" | "exec" | "portforward" | "proxy");
        if is_followed || is_connection { Self::Connection } else { Self::of_method(method) }
    }

    /// What a request is that does not last.
    fn of_method(method: &Method) -> Self {
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_read { Self::Read } else { Self::Write }
    }

    fn is_long_running(self) -> bool {
        matches!(self, Self::Watch | Self::Connection)
    }
}

/// Is it worth looking closer? Most requests are short, and the API parses them soon enough.
fn may_be_long_running(path: &str, query: &str) -> bool {
    const WORDS: [&str; 5] = ["/watch/", "/attach", "/exec", "/portforward", "/proxy"];
    let is_encoded = path.contains('%') || query.contains(['%', '+']);
    is_encoded
        || query.contains("watch")
        || query.contains("follow")
        || WORDS.iter().any(|word| path.contains(word))
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
    fn requests_are_what_their_verb_says() {
        let check = |uri: &str, expected: Sort| {
            let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
            assert_eq!(Sort::of(&Method::GET, path, query), expected, "{uri}");
        };
        assert_eq!(Sort::of(&Method::POST, "/api/v1/namespaces/a/pods", Some("watch=1")), Sort::Write);
        assert_eq!(Sort::of(&Method::POST, "/api/v1/namespaces/a/pods/x/exec", None), Sort::Connection);
        check("/api/v1/pods", Sort::Read);
        check("/api/v1/pods?watch=1", Sort::Watch);
        check("/api/v1/pods?limit=1&watch=maybe", Sort::Watch);
        check("/api/v1/pods?watch", Sort::Watch);
        check("/api/v1/pods?%77atch=1", Sort::Watch);
        check("/api/v1/pods?watch=false", Sort::Read);
        check("/api/v1/pods?watching=true", Sort::Read);
        check("/api/v1/watch/pods", Sort::Watch);
        check("/apis/apps/v1/watch/namespaces/a/deployments", Sort::Watch);
        check("/api/v1/namespaces/a/pods/x?watch=1", Sort::Read);
        check("/api/v1/namespaces/a/pods/x/status?watch=1", Sort::Read);
        check("/version?watch=1", Sort::Read);
        check("/api/v1/namespaces/a/pods/x/log", Sort::Read);
        check("/api/v1/namespaces/a/pods/x/log?follow=true", Sort::Connection);
        check("/api/v1/namespaces/a/pods/x/exec", Sort::Connection);
        check("/api/v1/namespaces/a/pods/log", Sort::Read);
        check("/apis/apps/v1/namespaces/a/deployments/x/scale", Sort::Read);
    }
}
