//! Routes requests: to the files of the page, and to the streams that feed it.
//!
//! **Invariant:** every path under `/api/` needs a token that the API server accepts. No path changes anything.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use homeostat_core::Clock;
use homeostat_core::activity::Activity;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::json;

use crate::api::{Refusal, ViewerApi};
use crate::assets::asset;
use crate::browser_defences;
use crate::connections::ConnectionViewer;
use crate::console_source::ConsoleSource;
use crate::event_stream_frame::frame;
use crate::history_window::load_window_start;
use crate::kinds::{WatchedKind, load_kinds};
use crate::live::{StreamStart, live_stream};
use crate::object_story::{StoryObject, object_story};
use crate::query::Query;
use crate::recording::Recording;
use crate::viewer_login::{StreamSlot, StreamSlots, Viewer};
use crate::viewer_operators::OperatorAnswerCache;

/// The body of a response.
pub type ConsoleBody = UnsyncBoxBody<Bytes, Infallible>;

/// How many lines of a log are shown at first.
const LOG_LINES: usize = 500;

/// The message for a viewer with too many open streams.
const TOO_MANY_PAGES: &str = "too many pages are open: close one";

/// The console of one process. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleState>);

struct ConsoleState {
    source: Arc<dyn ConsoleSource>,
    activity: Arc<Activity>,
    clock: Clock,
    title: String,
    hosts: Vec<String>,
    slots: StreamSlots,
    answers: OperatorAnswerCache,
    /// What is shown instead of a cluster.
    recording: Option<Arc<Recording>>,
}

impl Console {
    /// Creates a console. Let [`Activity::observe`] see every record of the operators that it should show.
    pub fn new(
        source: Arc<dyn ConsoleSource>,
        activity: Arc<Activity>,
        clock: Clock,
        title: impl Into<String>,
    ) -> Self {
        Self(Arc::new(ConsoleState {
            source,
            activity,
            clock,
            title: title.into(),
            hosts: Vec::new(),
            slots: StreamSlots::default(),
            answers: OperatorAnswerCache::default(),
            recording: None,
        }))
    }

    /// Creates a console that shows a run of a simulation.
    pub fn of_recording(recording: Recording) -> Self {
        let recording = Arc::new(recording);
        Self(Arc::new(ConsoleState {
            source: Arc::<Recording>::clone(&recording),
            activity: Arc::default(),
            clock: Clock::system(),
            title: recording.title.clone(),
            hosts: Vec::new(),
            slots: StreamSlots::default(),
            answers: OperatorAnswerCache::default(),
            recording: Some(recording),
        }))
    }

    /// Answers one request.
    pub async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<ConsoleBody> {
        let mut response = match self.route(method, uri, headers).await {
            Ok(response) => response,
            Err(refusal) => refuse(&refusal),
        };
        browser_defences::add_headers(response.headers_mut());
        response
    }

    async fn route(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Response<ConsoleBody>, Refusal> {
        if !browser_defences::is_meant_for_us(headers, &self.0.hosts) {
            return Err(refusal(
                StatusCode::MISDIRECTED_REQUEST,
                "this console does not answer to that host name",
            ));
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "the console only reads"));
        }
        if let Some(asset) = asset(uri.path()) {
            let body = if method == Method::HEAD { Bytes::new() } else { Bytes::from_static(asset.bytes) };
            return Ok(respond(asset.content_type, Full::new(body).boxed_unsync()));
        }
        let Some(page) = uri.path().strip_prefix("/api/") else {
            return Err(refusal(StatusCode::NOT_FOUND, "there is no such page"));
        };
        if !browser_defences::is_from_our_page(headers) {
            return Err(refusal(StatusCode::FORBIDDEN, "only the console's own page may ask for data"));
        }
        let token = browser_defences::bearer_token(headers)
            .ok_or_else(|| refusal(StatusCode::UNAUTHORIZED, "no token was sent"))?;
        let query = Query::parse(uri.query().unwrap_or_default());
        if let Some(recording) = &self.0.recording {
            return self.open_recorded(recording, token, page, &query);
        }
        let api = ViewerApi::new(Arc::clone(&self.0.source), token.to_owned());
        let viewer = Viewer::load(&api, query.get("namespace")).await?;
        let connection_viewer =
            ConnectionViewer { user: viewer.user.clone(), is_administrator: viewer.is_administrator };
        let slot = self.0.slots.take(&viewer);
        let slot = slot.ok_or_else(|| refusal(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_PAGES))?;
        let (source, namespaces) = (&*self.0.source, &viewer.namespaces);
        let api = api.with_operators(self.0.answers.of_viewer(source, token, namespaces, self.0.clock));
        let answer = match page {
            "now" => Ok(self.open_live(api, viewer, None, slot)),
            "past" => self.open_past(api, viewer, slot).await,
            "object" => self.open_object(api, &query, slot).await,
            "log" => open_log(&api, &query, slot).await,
            _ => Err(refusal(StatusCode::NOT_FOUND, "there is no such page")),
        };
        let mut response = answer.unwrap_or_else(|refusal| refuse(&refusal));
        response.extensions_mut().insert(connection_viewer);
        Ok(response)
    }

    /// Opens a stream of a recorded run. A viewer with its token may see all of it.
    fn open_recorded(
        &self,
        recording: &Recording,
        token: &str,
        page: &str,
        query: &Query,
    ) -> Result<Response<ConsoleBody>, Refusal> {
        if !is_same_token(token, &recording.token) {
            return Err(refusal(StatusCode::UNAUTHORIZED, "this token is not valid here"));
        }
        let viewer = Viewer {
            user: String::new(),
            is_administrator: true,
            namespaces: Vec::new(),
            may_see_operators: false,
        };
        let slot = self.0.slots.take(&viewer);
        let slot = slot.ok_or_else(|| refusal(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_PAGES))?;
        let mut response = stream_frames(recording.open(page, query)?, slot);
        let viewer = ConnectionViewer { user: viewer.user, is_administrator: true };
        response.extensions_mut().insert(viewer);
        Ok(response)
    }

    /// Returns the response for a viewer who has too many connections.
    pub(crate) fn refuse_connection() -> Response<ConsoleBody> {
        let message = "you have too many connections to the console: close some of its pages";
        let mut response = refuse(&refusal(StatusCode::TOO_MANY_REQUESTS, message));
        browser_defences::add_headers(response.headers_mut());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    fn open_live(
        &self,
        api: ViewerApi,
        viewer: Viewer,
        from: Option<u64>,
        slot: StreamSlot,
    ) -> Response<ConsoleBody> {
        let now = self.0.clock.now().as_millisecond();
        let hello = json!({"user": viewer.user, "title": self.0.title, "now": now, "from": from, "operators": viewer.may_see_operators});
        let start = from.map_or(StreamStart::Now, StreamStart::Past);
        let frames = live_stream(api, viewer, Arc::clone(&self.0.activity), self.0.clock, start);
        stream_frames(futures::stream::iter([frame("hello", &hello)]).chain(frames).boxed(), slot)
    }

    async fn open_past(
        &self,
        api: ViewerApi,
        viewer: Viewer,
        slot: StreamSlot,
    ) -> Result<Response<ConsoleBody>, Refusal> {
        let kinds = load_kinds(&api).await?;
        let from = load_window_start(&api, &kinds).await;
        let from = from
            .ok_or_else(|| refusal(StatusCode::NOT_FOUND, "the server keeps no history that you may read"))?;
        Ok(self.open_live(api, viewer, Some(from), slot))
    }

    async fn open_object(
        &self,
        api: ViewerApi,
        query: &Query,
        slot: StreamSlot,
    ) -> Result<Response<ConsoleBody>, Refusal> {
        let kinds = load_kinds(&api).await?;
        let object = story_object(&kinds, query)?;
        let from = load_window_start(&api, std::slice::from_ref(&object.kind)).await;
        let (source, activity) = (Arc::clone(&self.0.source), Arc::clone(&self.0.activity));
        let frames = object_story(&api, object, from, source, activity, self.0.clock).await?;
        Ok(stream_frames(frames, slot))
    }
}

/// Returns the object that a query names.
fn story_object(kinds: &[WatchedKind], query: &Query) -> Result<StoryObject, Refusal> {
    let part = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let (kind, namespace, name) = (part("kind"), part("namespace"), part("name"));
    let is_path_segment =
        |text: &str| !text.contains(['/', '?', '#', '%', '&', ',', '=']) && text != "." && text != "..";
    if name.is_empty() || !is_path_segment(&name) || !is_path_segment(&namespace) {
        return Err(refusal(StatusCode::BAD_REQUEST, "name an object: kind, namespace and name"));
    }
    let kind = kinds.iter().find(|one| one.id() == kind).cloned();
    let kind = kind.ok_or_else(|| refusal(StatusCode::NOT_FOUND, "the server has no such kind"))?;
    Ok(StoryObject { kind, namespace, name })
}

/// Forwards the log of a Pod unchanged.
async fn open_log(
    api: &ViewerApi,
    query: &Query,
    slot: StreamSlot,
) -> Result<Response<ConsoleBody>, Refusal> {
    let part = |name: &str| query.get(name).unwrap_or_default();
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) && !text.contains("..")
    };
    if !["namespace", "name", "container"].iter().all(|name| is_name(part(name))) {
        return Err(refusal(StatusCode::BAD_REQUEST, "name a Pod: namespace, name and container"));
    }
    let (namespace, name, container) = (part("namespace"), part("name"), part("container"));
    let previous = if part("previous") == "true" { "&previous=true" } else { "&follow=true" };
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}&tailLines={LOG_LINES}{previous}"
    );
    let answer = api.open(&path).await;
    let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::BAD_GATEWAY);
    let frames = answer.body.filter_map(move |piece| {
        let _held = &slot;
        std::future::ready(piece.ok().map(Frame::data).map(Ok))
    });
    let mut response = respond("text/plain; charset=utf-8", BodyExt::boxed_unsync(StreamBody::new(frames)));
    *response.status_mut() = code;
    Ok(response)
}

/// Returns a stream of frames that holds its slot until it ends.
fn stream_frames(frames: BoxStream<'static, Bytes>, slot: StreamSlot) -> Response<ConsoleBody> {
    let frames = frames.map(move |bytes| {
        let _held = &slot;
        Ok(Frame::data(bytes))
    });
    respond("text/event-stream; charset=utf-8", BodyExt::boxed_unsync(StreamBody::new(frames)))
}

fn respond(content_type: &'static str, body: ConsoleBody) -> Response<ConsoleBody> {
    let response = Response::builder().header(header::CONTENT_TYPE, content_type);
    response.body(body).expect("a fixed header and a body make a response")
}

/// Compares two tokens in constant time, regardless of where they differ.
pub fn is_same_token(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn refusal(code: StatusCode, message: &str) -> Refusal {
    Refusal { code: code.as_u16(), message: message.to_owned() }
}

fn refuse(refusal: &Refusal) -> Response<ConsoleBody> {
    let text = json!({"message": refusal.message}).to_string();
    let mut response = respond("application/json", Full::from(text).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::BAD_GATEWAY);
    response
}
