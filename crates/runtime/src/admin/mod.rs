//! The admin server: metrics, health, readiness, what the operator is doing, the journal of an object. Read-only, plain HTTP, one page per path.
//!
//! [`answer`] is a function of the [`AdminState`]; the code around it only moves bytes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use homeostat_core::activity::Activity;
use homeostat_core::journal::WatchState;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

mod activity_page;
mod caller;
mod journal_page;
mod metrics;
mod pages;

pub(crate) use activity_page::ACTIVITY_PATH;
pub(crate) use caller::CALLER_TOKEN_HEADER;
pub(crate) use journal_page::JOURNAL_PATH;
use metrics::{CacheReading, Metrics, MetricsReading, QueueReading};
pub use pages::{AdminBody, AdminPages, AdminPagesContext};
pub(crate) use pages::{MakeAdminPages, client_without_credentials};

use crate::cache::caches::Caches;
use crate::controller::assemble::AssembledController;
use crate::controller::world_health::WorldHealthSource;
use crate::error::Error;
use crate::handlers::OperatorHandlers;
use crate::rights::permission_review::Rights;
use crate::shared::OperatorShared;
use crate::workers::controller_queue::ControllerQueue;

/// The maximum number of concurrent connections: a scraper, a kubelet, a few people. Another connection closes the
/// oldest one, so that idle connections do not lock anyone out: a response takes milliseconds, and a client that loses
/// an idle connection opens another.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may take to send a request, the first one and each one after it: longer than the usual minute
/// between two scrapes.
const REQUEST_MAX: Duration = Duration::from_secs(75);

/// Concurrent questions about objects and controllers: each asks the API server to identify the caller.
const QUESTIONS_MAX: usize = 8;

/// The pause after a failed accept, which is usually due to a lack of file descriptors: retrying at once would be a
/// busy loop.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Everything that the admin server shows.
pub(crate) struct AdminState {
    metrics: Arc<Metrics>,
    activity: Arc<Activity>,
    caches: Caches,
    probes: Option<Probes>,
    stage: Mutex<OperatorStage>,
    rights: Mutex<Rights>,
    /// Questions in progress for which the API server is asked about the caller.
    questions: Semaphore,
}

/// How far the operator's startup has progressed.
enum OperatorStage {
    /// The operator is doing this before its controllers exist.
    Starting(String),
    /// Its controllers and worlds are running.
    Running { controllers: Vec<ShownController>, worlds: Vec<Arc<dyn WorldHealthSource>> },
}

/// The operator's probes and what they need.
struct Probes {
    shared: Arc<OperatorShared>,
    activities: Arc<OperatorHandlers>,
}

struct ShownController {
    name: String,
    queue: ControllerQueue,
    concurrency: usize,
}

/// The requested form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageFormat {
    Text,
    Json,
}

/// A question whose answer depends on who asks.
enum CallerQuestion<'a> {
    /// What the operator did about an object.
    Journal { query: Option<&'a str> },
    /// What it is doing.
    Activity,
}

/// An answer of the admin server.
struct AdminPage {
    code: StatusCode,
    content_type: &'static str,
    text: String,
}

impl AdminState {
    /// Returns the state of an operator that is about to start. `activity` is what the journal is folded into if there is
    /// an admin server; otherwise nothing is counted.
    pub(crate) fn new(
        shared: &Arc<OperatorShared>,
        activities: Arc<OperatorHandlers>,
        activity: Option<Arc<Activity>>,
    ) -> Arc<Self> {
        let metrics = Metrics::new();
        if activity.is_some() {
            let fold = metrics.clone();
            shared.journal.fold(move |record| fold.fold(record));
        }
        Arc::new(Self {
            metrics,
            activity: activity.unwrap_or_default(),
            caches: shared.caches.clone(),
            probes: Some(Probes { shared: shared.clone(), activities }),
            stage: Mutex::new(OperatorStage::Starting("nothing is done yet".to_owned())),
            rights: Mutex::default(),
            questions: Semaphore::new(QUESTIONS_MAX),
        })
    }

    /// Records what the operator is doing before its controllers exist.
    pub(crate) fn set_starting(&self, words: String) {
        *self.stage() = OperatorStage::Starting(words);
    }

    /// Records that the controllers exist.
    pub(crate) fn set_running(&self, parts: &[AssembledController]) {
        let shown = |part: &AssembledController| ShownController {
            name: part.name.to_string(),
            queue: part.queue.clone(),
            concurrency: part.pump.concurrency,
        };
        *self.stage() = OperatorStage::Running {
            controllers: parts.iter().map(shown).collect(),
            worlds: parts.iter().flat_map(|part| part.worlds.clone()).collect(),
        };
    }

    pub(crate) fn set_rights(&self, rights: Rights) {
        *self.rights.lock().unwrap_or_else(PoisonError::into_inner) = rights;
    }

    fn stage(&self) -> MutexGuard<'_, OperatorStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a description of what the operator is doing, if its controllers do not exist yet.
    fn starting(&self) -> Option<String> {
        match &*self.stage() {
            OperatorStage::Starting(words) => Some(words.clone()),
            OperatorStage::Running { .. } => None,
        }
    }

    /// Runs the operator's probes, if it has any. They do not run before the operator has started: they may need
    /// something that a startup handler is about to create, and an operator that is starting is alive.
    async fn health(&self, format: PageFormat) -> AdminPage {
        if let Some(words) = self.starting() {
            return AdminPage::text(StatusCode::OK, format!("ok, starting: {words}\n"));
        }
        let answers = match &self.probes {
            Some(probes) => probes.activities.probe(&probes.shared).await,
            None => Vec::new(),
        };
        if answers.is_empty() {
            return AdminPage::text(StatusCode::OK, "ok\n");
        }
        let is_well = answers.iter().all(|(_, answer)| answer.is_ok());
        let code = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        if format == PageFormat::Json {
            let fields = answers
                .into_iter()
                .map(|(id, answer)| (id, answer.unwrap_or_else(|error| json!({"error": error}))));
            let text = Value::Object(fields.collect()).to_string();
            return AdminPage { code, content_type: "application/json", text };
        }
        let line = |(id, answer): &(String, Result<Value, String>)| match answer {
            Ok(Value::Null) => format!("[+] {id} ok\n"),
            Ok(value) => format!("[+] {id} {value}\n"),
            Err(error) => format!("[-] {id} {error}\n"),
        };
        AdminPage::text(code, answers.iter().map(line).collect::<String>())
    }

    /// Answers a question for which the API server is asked who the caller is and what they may know.
    async fn answer_caller(&self, question: CallerQuestion<'_>, headers: &HeaderMap) -> AdminPage {
        let Some(Probes { shared, .. }) = &self.probes else {
            return AdminPage::text(StatusCode::NOT_FOUND, "there is no server to ask who may read what\n");
        };
        let Ok(_permit) = self.questions.try_acquire() else {
            return AdminPage::text(StatusCode::TOO_MANY_REQUESTS, "too many questions at once; ask again\n");
        };
        match question {
            CallerQuestion::Journal { query } => journal_page::page(shared, headers, query).await,
            CallerQuestion::Activity => activity_page::page(shared, &self.activity, headers).await,
        }
    }

    fn answer(&self, path: &str) -> AdminPage {
        match path.trim_matches('/').split('/').next() {
            Some("readyz") => self.readiness(),
            Some("metrics") => AdminPage {
                code: StatusCode::OK,
                content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text: self.metrics.text(&self.reading()),
            },
            _ => AdminPage::text(
                StatusCode::NOT_FOUND,
                "try /metrics /healthz /readyz, or the command `why KIND NAME` of this program\n",
            ),
        }
    }

    /// Returns whether every watch is up to date with the server, and names the watches that are not, with the reason.
    fn readiness(&self) -> AdminPage {
        let mut lines = Vec::new();
        let mut is_ready = true;
        if let Some(words) = self.starting() {
            is_ready = false;
            lines.push(format!("[-] starting: {words}\n"));
        }
        for (_, cache) in self.caches.all() {
            let freshness = cache.freshness();
            let problem = match freshness.state {
                WatchState::Fresh if freshness.is_synced => None,
                WatchState::Failing { error, .. } => Some(error),
                WatchState::Fresh | WatchState::Listing => Some("reading the initial state".to_owned()),
            };
            is_ready &= problem.is_none();
            let mark = if problem.is_none() { "[+]" } else { "[-]" };
            let resource = cache.info().resource.clone();
            lines.push(format!("{mark} {resource} {}\n", problem.as_deref().unwrap_or("ok")));
            let quarantined = cache.quarantined().into_iter();
            lines.extend(quarantined.map(|(key, error)| format!("[!] {key} does not decode: {error}\n")));
        }
        if let OperatorStage::Running { worlds, .. } = &*self.stage() {
            lines.extend(worlds.iter().map(|world| world.health().line()));
        }
        let rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner).lines();
        lines.extend(rights.into_iter().map(|words| format!("[!] {words}\n")));
        let undeclared = self.probes.iter().flat_map(|probes| probes.shared.declared.undeclared());
        lines.extend(undeclared.map(|words| format!("[!] {words}\n")));
        AdminPage::text(
            if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE },
            lines.concat(),
        )
    }

    fn reading(&self) -> MetricsReading {
        let queue = |shown: &ShownController| QueueReading {
            controller: shown.name.clone(),
            ready: shown.queue.depth().ready,
            concurrency_max: shown.concurrency,
        };
        let caches = self.caches.all().into_iter().map(|(_, cache)| {
            let freshness = cache.freshness();
            let is_fresh = freshness.is_synced && freshness.state == WatchState::Fresh;
            CacheReading {
                resource: cache.info().resource.clone(),
                objects: cache.len(),
                quarantined: cache.quarantined().len(),
                is_fresh,
            }
        });
        let (queues, worlds) = match &*self.stage() {
            OperatorStage::Starting(_) => (Vec::new(), Vec::new()),
            OperatorStage::Running { controllers, worlds } => {
                (controllers.iter().map(queue).collect(), worlds.iter().map(|world| world.health()).collect())
            }
        };
        MetricsReading { queues, caches: caches.collect(), worlds }
    }
}

impl AdminPage {
    fn text(code: StatusCode, text: impl Into<String>) -> Self {
        Self { code, content_type: "text/plain; charset=utf-8", text: text.into() }
    }

    fn json(answer: &impl serde::Serialize) -> Self {
        let text = serde_json::to_string(answer).unwrap_or_default();
        Self { code: StatusCode::OK, content_type: "application/json", text }
    }

    fn response(self) -> Response<AdminBody> {
        let response =
            Response::builder().status(self.code).header(http::header::CONTENT_TYPE, self.content_type);
        response
            .body(Full::<Bytes>::from(self.text).boxed_unsync())
            .expect("a code, a header and a text make a response")
    }
}

/// Where the admin pages are served.
pub(crate) enum Admin {
    At(SocketAddr),
    On(std::net::TcpListener),
}

impl Admin {
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => Some(*address),
            Self::On(listener) => listener.local_addr().ok(),
        }
    }

    pub(crate) async fn listen(self) -> Result<TcpListener, Error> {
        let (place, bound) = match self {
            Self::At(address) => (address.to_string(), TcpListener::bind(address).await),
            Self::On(listener) => {
                let bound = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
                ("the given listener".to_owned(), bound)
            }
        };
        let listener = bound.map_err(|source| {
            let what = format!("cannot serve the admin pages on {place}");
            Error::Local { what, source }
        })?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "admin pages are served");
        }
        Ok(listener)
    }
}

/// Serves until dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    admin_state: Arc<AdminState>,
    pages: Option<Arc<dyn AdminPages>>,
) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                oldest_first.retain(|connection| !connection.is_finished());
                if oldest_first.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = oldest_first.pop_front()
                {
                    oldest.abort();
                }
                oldest_first.push_back(connections.spawn(serve_connection(
                    stream,
                    admin_state.clone(),
                    pages.clone(),
                )));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until it is closed.
async fn serve_connection(
    stream: TcpStream,
    admin_state: Arc<AdminState>,
    pages: Option<Arc<dyn AdminPages>>,
) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (admin_state, pages) = (admin_state.clone(), pages.clone());
        async move {
            let request = request.map(drop);
            let response = match pages.filter(|_| !is_own_path(request.uri().path())) {
                Some(pages) => pages.answer(request).await,
                None => respond(&admin_state, &request).await,
            };
            Ok::<_, Infallible>(response)
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_MAX);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Returns whether a path is one of the admin server's own.
fn is_own_path(path: &str) -> bool {
    let first = path.trim_matches('/').split('/').next().unwrap_or_default();
    ["metrics", "healthz", "livez", "readyz", "journal", "activity"].contains(&first)
}

async fn respond(admin_state: &AdminState, request: &Request<()>) -> Response<AdminBody> {
    let accept = request.headers().get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_json = accept.is_some_and(|accept| accept.contains("application/json"));
    let format = if wants_json { PageFormat::Json } else { PageFormat::Text };
    let path = request.uri().path();
    let headers = request.headers();
    let page = match path.trim_matches('/') {
        "healthz" | "livez" => admin_state.health(format).await,
        "journal" => {
            let query = request.uri().query();
            admin_state.answer_caller(CallerQuestion::Journal { query }, headers).await
        }
        "activity" => admin_state.answer_caller(CallerQuestion::Activity, headers).await,
        _ => admin_state.answer(path),
    };
    page.response()
}

#[cfg(test)]
mod tests {
    use homeostat_core::journal::{Cause, Entry, RequestedNext};
    use homeostat_core::{Clock, Key};
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::journal::Journal;
    use crate::watch::Scope;

    fn admin_state() -> (AdminState, Journal, crate::cache::ObjectCache) {
        let caches = Caches::default();
        let cache = caches.declare(crate::kind::info::<ConfigMap>(), &Scope::default());
        let journal = Journal::new(Clock::system());
        let metrics = Metrics::new();
        let fold = metrics.clone();
        journal.fold(move |record| fold.fold(record));
        (
            AdminState {
                metrics,
                activity: Arc::default(),
                caches,
                probes: None,
                stage: Mutex::new(OperatorStage::Running { controllers: Vec::new(), worlds: Vec::new() }),
                rights: Mutex::default(),
                questions: Semaphore::new(QUESTIONS_MAX),
            },
            journal,
            cache,
        )
    }

    #[test]
    fn ready_means_every_watch_is_fresh() {
        let (admin_state, _, cache) = admin_state();
        assert_eq!(admin_state.answer("/readyz").code, StatusCode::SERVICE_UNAVAILABLE);
        cache.begin_list();
        cache.end_list(homeostat_core::Revision::new(1));
        assert_eq!(admin_state.answer("/readyz").code, StatusCode::OK);
        let retry = std::time::Duration::from_secs(1);
        cache.set_state(WatchState::Failing { error: "cannot watch configmaps: forbidden".into(), retry });
        let page = admin_state.answer("/readyz");
        assert_eq!(page.code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(page.text, "[-] configmaps cannot watch configmaps: forbidden\n");
    }

    #[test]
    fn the_journal_becomes_metrics() {
        let (admin_state, journal, _) = admin_state();
        let object = Key::new("", "configmaps", "a", "x");
        let took = std::time::Duration::from_millis(3);
        let record = |entry| journal.record(&"maps".into(), entry);
        record(Entry::Queued { object: object.clone(), cause: Cause::Edited });
        record(Entry::Started {
            object: object.clone(),
            causes: vec![Cause::Edited],
            failures: 0,
            waited: took,
        });
        record(Entry::Settled { object, next: RequestedNext::AwaitChange, took });
        let text = admin_state.answer("/metrics").text;
        for line in [
            "controller_runtime_reconcile_total{controller=\"maps\",result=\"success\"} 1",
            "workqueue_adds_total{name=\"maps\",controller=\"maps\"} 1",
            "homeostat_cache_objects{resource=\"configmaps\"} 0",
            "controller_runtime_active_workers{controller=\"maps\"} 0",
            "controller_runtime_reconcile_time_seconds_bucket{le=\"0.001\",controller=\"maps\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
