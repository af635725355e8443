//! Filters every request before the API sees it: authenticates it, and limits concurrency, memory and time.
//!
//! **Invariant:** a panic in the API is a 500 for that request only; long-running requests (watches, followed logs,
//! exec) compete for slots only with each other, never with short ones, and so do health probes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use homeostat_api::status::Status;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::answer_memory::{AnswerMemory, UserAnswerMemory};
use super::answer_progress::ListResponseInProgress;
use super::body_memory::BodyMemory;
use super::connection::ConnectedClient;
use super::connection_table::{ActiveRequest, ConnectionRegistration};
use super::request_body::RequestBody;
use super::request_slots::{RequestSlot, RequestSlots};
use super::response_body::{AnswerResources, RefusalResources, ResponseBody};
use crate::auth::{Authenticator, Identity, MASTERS, account_of};
use crate::body::Body;
use crate::health;
use crate::limits::{
    ANSWER_TIME, BODY_BYTES_MAX, PROBE_URI_BYTES_MAX, PROBES_MAX, READS_MAX, REFUSAL_BYTES, RETRY_AFTER_S,
    STREAMS_TOTAL_MAX, UPGRADE_TIME, USER_READS_MAX, USER_STREAMS_MAX, USER_WATCHES_MAX, USER_WRITES_MAX,
    WATCHES_MAX, WRITES_MAX,
};
use crate::refusal_log::RequestHead;
use crate::request::{PathTarget, Query, Verb, decode_path, verb_of_request};
use crate::streams::upgrade::{Upgrade, UpgradePossible};

/// Anything that handles requests: the API, or a stand-in. It finds an [`Identity`](crate::auth::Identity) in the
/// extensions of each request.
pub trait RequestHandler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Body>>;
}

impl<S> RequestHandler for S
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

/// An extension of a handler's response: the response is not sent, and its connection (in HTTP/2, its stream) breaks
/// instead. It is used for simulated faults.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLoss;

/// The limits for one group of users: slots by class of request, and memory for responses.
struct RequestLimits {
    reads: Arc<RequestSlots>,
    writes: Arc<RequestSlots>,
    watches: Arc<RequestSlots>,
    streams: Arc<RequestSlots>,
    probes: Arc<RequestSlots>,
    /// The memory of answers that wait to be read.
    answer_memory: AnswerMemory,
}

impl RequestLimits {
    fn new() -> Self {
        Self {
            reads: RequestSlots::new(USER_READS_MAX, READS_MAX),
            writes: RequestSlots::new(USER_WRITES_MAX, WRITES_MAX),
            watches: RequestSlots::new(USER_WATCHES_MAX, WATCHES_MAX),
            streams: RequestSlots::new(USER_STREAMS_MAX, STREAMS_TOTAL_MAX),
            // Most of them are anonymous, that is, of one user.
            probes: RequestSlots::new(PROBES_MAX, PROBES_MAX),
            answer_memory: AnswerMemory::default(),
        }
    }

    fn slots(&self, class: RequestClass) -> &Arc<RequestSlots> {
        match class {
            RequestClass::Read => &self.reads,
            RequestClass::Write => &self.writes,
            RequestClass::Watch => &self.watches,
            RequestClass::Connection => &self.streams,
            RequestClass::Probe => &self.probes,
        }
    }
}

/// Filters requests before they reach the handler.
pub(crate) struct RequestFilter {
    handler: Arc<dyn RequestHandler>,
    authenticator: Arc<Authenticator>,
    users: RequestLimits,
    /// Administrators have separate limits, so that no user can lock them out.
    administrators: RequestLimits,
    body_memory: BodyMemory,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl RequestFilter {
    /// Creates a filter. `tasks` owns work that briefly outlives a request; `stop` stops watches.
    pub(crate) fn new(
        handler: Arc<dyn RequestHandler>,
        authenticator: Arc<Authenticator>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let (users, administrators) = (RequestLimits::new(), RequestLimits::new());
        let body_memory = BodyMemory::default();
        Self { handler, authenticator, users, administrators, body_memory, tasks, stop }
    }

    /// Handles one request on a connection from this client. Gives up if the client leaves too many refusals unread.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Incoming>,
        client: &ConnectedClient,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        let active_request = client.connection.begin();
        let upgrade =
            request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
        if upgrade.is_some() && request.version() == Version::HTTP_11 {
            request.extensions_mut().insert(UpgradePossible);
        }
        let mut request = RequestBody::new(request, &self.tasks);
        let class = RequestClass::classify(request.method(), request.uri().path(), request.uri().query());
        let identity = match self.identify(&request, client) {
            Ok(identity) => identity,
            Err(refusal) => return self.refuse(*refusal, client, None, active_request),
        };
        let memory = self.limits_of(&identity).answer_memory.for_user(account_of(&identity));
        let Some(slot) = self.limits_of(&identity).slots(class).take(account_of(&identity)) else {
            let refusal = too_many_requests();
            self.record_limited(&request, client, &identity, &refusal);
            return self.refuse(refusal, client, Some(&memory), active_request);
        };
        if upgrade.is_none() && matches!(*request.method(), Method::GET | Method::HEAD) {
            request.body_mut().discard();
        }
        // This is kept until the response is ready, because the handler may keep the body until then.
        let has_body = !request.body().is_end_stream();
        let body_reservation = has_body.then(|| Arc::new(self.body_memory.open(&identity)));
        request.body_mut().occupy(Some(&slot));
        request.body_mut().count_in(body_reservation.clone());
        request.extensions_mut().insert(slot.handle());
        request.extensions_mut().insert(identity);
        if let Some(address) = client.address {
            request.extensions_mut().insert(ClientAddress(address));
        }
        let response = self.handle(request, class).await;
        drop(body_reservation);
        if class == RequestClass::Probe {
            return self.send_short(response, client, Some(&memory), active_request);
        }
        let (mut head, body) = response.into_parts();
        if let (Some(accepted), Some(upgraded)) = (head.extensions.remove::<Upgrade>(), upgrade) {
            let resources = StreamResources {
                _slot: slot,
                _active_request: active_request,
                connection: Arc::clone(&client.connection),
            };
            self.tasks.spawn(run_upgraded(upgraded, accepted, resources, self.stop.clone()));
            return Ok(Response::from_parts(head, ResponseBody::new(body, &self.stop, None)));
        }
        if head.extensions.get::<ConnectionLoss>().is_some() {
            return Err(h2::Reason::INTERNAL_ERROR.into());
        }
        let Some(body) = memory.reserve_body(body) else {
            return self.refuse(too_many_requests(), client, Some(&memory), active_request);
        };
        let begin = || client.progress.begin(ListResponseInProgress::of_body(&body, &memory));
        let in_progress = (!class.may_rest(&body)).then(begin);
        let memory = matches!(body, Body::List(..) | Body::Stream(_) | Body::Proxied(_)).then_some(memory);
        let resources = AnswerResources {
            in_progress,
            _slot: Some(slot),
            _active_request: active_request,
            _refusal: RefusalResources::default(),
            memory,
        };
        Ok(Response::from_parts(head, ResponseBody::new(body, &self.stop, Some(resources))))
    }

    /// Returns the user who sent the request, or a refusal, which is recorded.
    fn identify(
        &self,
        request: &Request<RequestBody>,
        client: &ConnectedClient,
    ) -> Result<Identity, Box<Response<Body>>> {
        let identity =
            self.authenticator.authenticate(&client.peer, request.headers()).map_err(|status| {
                let refusal = refusal_response(&status);
                if let Some(log) = self.authenticator.refusal_log() {
                    log.record_unauthenticated(RequestHead::of(request, client.address), &refusal);
                }
                Box::new(refusal)
            })?;
        admit(request, client, &identity)
            .inspect_err(|refusal| self.record_limited(request, client, &identity, refusal))?;
        Ok(identity)
    }

    fn record_limited(
        &self,
        request: &Request<RequestBody>,
        client: &ConnectedClient,
        identity: &Identity,
        refusal: &Response<Body>,
    ) {
        if let Some(log) = self.authenticator.refusal_log() {
            log.record_limited(RequestHead::of(request, client.address), identity, refusal);
        }
    }

    fn limits_of(&self, identity: &Identity) -> &RequestLimits {
        if identity.is_in(MASTERS) { &self.administrators } else { &self.users }
    }

    /// Sends a refusal.
    fn refuse(
        &self,
        response: Response<Body>,
        client: &ConnectedClient,
        memory: Option<&UserAnswerMemory>,
        active_request: ActiveRequest,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        self.send_short(self.count_refusal(response), client, memory, active_request)
    }

    /// Sends a short answer, which has no slot but takes memory until it is read. Resets the stream if there is no
    /// memory.
    fn send_short(
        &self,
        response: Response<Body>,
        client: &ConnectedClient,
        memory: Option<&UserAnswerMemory>,
        active_request: ActiveRequest,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        let taken = match memory.filter(|_| client.connection.is_authenticated()) {
            Some(memory) => memory
                .reserve(REFUSAL_BYTES)
                .map(|memory| RefusalResources { _memory: Some(memory), ..RefusalResources::default() }),
            None => client
                .connection
                .refuse()
                .map(|unsent| RefusalResources { _unsent: Some(unsent), ..RefusalResources::default() }),
        };
        let refusal = taken.ok_or(h2::Reason::REFUSED_STREAM)?;
        let in_progress = Some(client.progress.begin(None));
        let resources = AnswerResources {
            in_progress,
            _slot: None,
            _active_request: active_request,
            _refusal: refusal,
            memory: None,
        };
        Ok(response.map(|body| ResponseBody::new(body, &self.stop, Some(resources))))
    }

    async fn handle(&self, request: Request<RequestBody>, class: RequestClass) -> Response<Body> {
        let answer = AssertUnwindSafe(async { self.handler.handle(request).await }).catch_unwind();
        let answer = if class.is_long_running() {
            answer.await
        } else {
            let Ok(answer) = tokio::time::timeout(ANSWER_TIME, answer).await else {
                let slow = Status::timeout("request did not complete within the allotted timeout");
                return self.count_refusal(refusal_response(&slow));
            };
            answer
        };
        match answer {
            Ok(response) => response,
            Err(_) => self.count_refusal(refusal_response(&Status::internal(
                "the request caused a panic in the server; see its log",
            ))),
        }
    }

    /// Counts a refusal.
    fn count_refusal(&self, response: Response<Body>) -> Response<Body> {
        self.authenticator.refusals.add(response.status().as_u16());
        response
    }
}

/// Refuses an authenticated request whose connection or body exceeds a limit.
fn admit(
    request: &Request<RequestBody>,
    client: &ConnectedClient,
    identity: &Identity,
) -> Result<(), Box<Response<Body>>> {
    if client.connection.authenticate_as(identity).is_err() {
        let mut response = too_many_requests();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Err(Box::new(response));
    }
    if request.body().size_hint().lower() > BODY_BYTES_MAX {
        let text = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
        return Err(Box::new(refusal_response(&Status::too_large(text))));
    }
    Ok(())
}

/// The resources that an upgraded connection holds until it is closed.
struct StreamResources {
    _slot: RequestSlot,
    _active_request: ActiveRequest,
    connection: Arc<ConnectionRegistration>,
}

/// Runs another protocol on a connection once the client has received the response, until either side or the server
/// closes it.
async fn run_upgraded(
    upgraded: OnUpgrade,
    accepted: Upgrade,
    resources: StreamResources,
    stop: CancellationToken,
) {
    let run = async {
        match tokio::time::timeout(UPGRADE_TIME, upgraded).await {
            Ok(Ok(connection)) => accepted.run(Box::new(TokioIo::new(connection))).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection did not change its protocol"),
            Err(_) => tracing::debug!("a connection did not change its protocol in time"),
        }
    };
    tokio::select! {
        () = run => {}
        () = stop.cancelled() => {}
        () = resources.connection.close_requested() => {}
    }
}

/// The class of a request, which determines its limits. It is derived with the same parser that the API uses, so that
/// no request can pass for a different class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestClass {
    Read,
    Write,
    /// A watch or a followed log: lasts as long as the client wants, and has separate slots.
    Watch,
    /// A connection to a container.
    Connection,
    /// A question about the server's health: answered at once, and shortly.
    Probe,
}

impl RequestClass {
    fn classify(method: &Method, path: &str, query: Option<&str>) -> Self {
        if is_probe(method, path, query.unwrap_or_default()) {
            return Self::Probe;
        }
        if !may_be_long_running(path, query.unwrap_or_default()) {
            return Self::of_method(method);
        }
        let Ok(decoded) = decode_path(path) else { return Self::of_method(method) };
        let PathTarget::Resource(path) = PathTarget::parse(&decoded) else { return Self::of_method(method) };
        let query = Query::parse(query);
        if verb_of_request(method, &path, &query) == Some(Verb::Watch) && path.subresource.is_empty() {
            return Self::Watch;
        }
        let is_followed = path.subresource == "log" && *method == Method::GET && query.flag("follow");
        let is_connection = matches!(&*path.subresource, "attach" | "exec" | "portforward" | "proxy");
        match (is_followed, is_connection) {
            (true, _) => Self::Watch,
            (_, true) => Self::Connection,
            _ => Self::of_method(method),
        }
    }

    /// Returns the class of a request that is not long-running.
    fn of_method(method: &Method) -> Self {
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_read { Self::Read } else { Self::Write }
    }

    fn is_long_running(self) -> bool {
        matches!(self, Self::Watch | Self::Connection)
    }

    /// Returns whether an answer may wait for its client: a watch or a log has nothing to send most of the time. Any other
    /// answer must be read, also that of a Pod.
    fn may_rest(self, body: &Body) -> bool {
        self.is_long_running() && matches!(body, Body::Stream(_))
    }
}

fn is_probe(method: &Method, path: &str, query: &str) -> bool {
    let is_short = path.len() + query.len() <= PROBE_URI_BYTES_MAX;
    is_short && matches!(*method, Method::GET | Method::HEAD) && health::is_probe(path)
}

/// The address of the client of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Returns whether the request needs a closer check. Most requests are short, and the API parses them anyway.
fn may_be_long_running(path: &str, query: &str) -> bool {
    const WORDS: [&str; 5] = ["/watch/", "/attach", "/exec", "/portforward", "/proxy"];
    let is_encoded = path.contains('%') || query.contains(['%', '+']);
    is_encoded
        || query.contains("watch")
        || query.contains("follow")
        || WORDS.iter().any(|word| path.contains(word))
}

fn refusal_response(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{}\n", status.to_text())));
    *response.status_mut() = http::StatusCode::from_u16(status.code).expect("a status has a code of HTTP");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Responds in plain text, as kube-apiserver's filter does; clients look at the code and the header.
fn too_many_requests() -> Response<Body> {
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
    fn requests_are_classified_by_their_verb() {
        let check = |uri: &str, expected: RequestClass| {
            let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
            assert_eq!(RequestClass::classify(&Method::GET, path, query), expected, "{uri}");
        };
        assert_eq!(
            RequestClass::classify(&Method::POST, "/api/v1/namespaces/a/pods", Some("watch=1")),
            RequestClass::Write
        );
        assert_eq!(
            RequestClass::classify(&Method::POST, "/api/v1/namespaces/a/pods/x/exec", None),
            RequestClass::Connection
        );
        check("/api/v1/pods", RequestClass::Read);
        check("/api/v1/pods?watch=1", RequestClass::Watch);
        check("/api/v1/pods?limit=1&watch=maybe", RequestClass::Watch);
        check("/api/v1/pods?watch", RequestClass::Watch);
        check("/api/v1/pods?%77atch=1", RequestClass::Watch);
        check("/api/v1/pods?watch=false", RequestClass::Read);
        check("/api/v1/pods?watching=true", RequestClass::Read);
        check("/api/v1/watch/pods", RequestClass::Watch);
        check("/apis/apps/v1/watch/namespaces/a/deployments", RequestClass::Watch);
        check("/api/v1/namespaces/a/pods/x?watch=1", RequestClass::Read);
        check("/api/v1/namespaces/a/pods/x/status?watch=1", RequestClass::Read);
        check("/version?watch=1", RequestClass::Read);
        check("/healthz", RequestClass::Probe);
        check("/livez?verbose", RequestClass::Probe);
        check("/readyz/etcd", RequestClass::Probe);
        check("/healthzz", RequestClass::Read);
        check(&format!("/healthz?exclude={}", "x".repeat(PROBE_URI_BYTES_MAX)), RequestClass::Read);
        check("/api/v1/namespaces/a/pods/x/log", RequestClass::Read);
        check("/api/v1/namespaces/a/pods/x/log?follow=true", RequestClass::Watch);
        check("/api/v1/namespaces/a/pods/x/exec", RequestClass::Connection);
        check("/api/v1/namespaces/a/pods/log", RequestClass::Read);
        check("/apis/apps/v1/namespaces/a/deployments/x/scale", RequestClass::Read);
    }
}
