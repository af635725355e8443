//! The async shell around the list/watch machine: it sends the machine's requests, splits the responses into objects,
//! feeds the cache and writes the journal. It never returns; dropping it closes the connection and leaves the cache as
//! it was.
//!
//! A cache that keeps nothing only passes its changes on. In that case the watch waits for its readers, so that unread
//! changes wait on the server rather than in our memory.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use homeostat_core::journal::{Change, Entry, Source, WatchState};
use homeostat_core::{Entropy, Key};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request as Path, Status};
use tokio::time::{Instant, timeout};

use super::{ObjectCache, ObjectDelta, ShownBy};
use crate::journal::Journal;
use crate::kind::{KindInfo, parse_revision};
use crate::watch::Scope;
use crate::watch::decode_watch::{self, ReceivedObject, WatchLine};
use crate::watch::outage::Outage;
use crate::watch::read_ahead::{ListInProgress, WatchBody};
use crate::watch::watch_machine::{CacheEffect, WatchMachine, WatchRequest, WatchSignal};

/// The number of objects per page: client-go's value, which servers are tuned for.
const PAGE_OBJECTS: u32 = 500;

/// A watch is renewed after this time, so that a server can shed connections.
const WATCH_SECONDS: u32 = 290;

/// Bookmarks come about once a minute; three missed ones mean a dead connection or a server without bookmarks, and a
/// new watch shows which of the two it is.
const SILENCE_MAX: Duration = Duration::from_secs(200);

/// The maximum time until the response to a request begins, or until a page has been read.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long the body of an error response may take: its code has arrived, and the body is a few hundred bytes.
const REFUSAL_MAX: Duration = Duration::from_secs(10);

/// The maximum number of bytes of an error response that are read.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// The error reported when a list of a kind without a cache expires.
const SLOW_READERS: &str = "the list expired before the event handlers had processed it: they take longer than the \
                            server keeps a list; move long work out of them, or use handlers that record progress";

/// Everything one watch needs.
pub(crate) struct WatchLoop {
    pub(crate) client: Client,
    pub(crate) cache: ObjectCache,
    pub(crate) scope: Scope,
    pub(crate) journal: Journal,
    pub(crate) source: Source,
    pub(crate) entropy: Entropy,
    pub(crate) outage: Mutex<Outage>,
}

/// Keeps the cache up to date with the server for as long as it is polled.
pub(crate) async fn feed_cache(feed: WatchLoop) {
    let is_kept = feed.cache.is_kept();
    loop {
        let entropy = feed.entropy.clone();
        let machine = if is_kept { WatchMachine::new(entropy) } else { WatchMachine::in_pages(entropy) };
        tokio::select! {
            never = feed.follow_machine(machine) => match never {},
            // If the objects are kept, the server need not show them again.
            () = feed.cache.relist_wanted(), if !is_kept => {}
        }
    }
}

/// A failed exchange, as a signal for the machine.
struct WatchFailure(WatchSignal);

impl WatchLoop {
    fn info(&self) -> &'static KindInfo {
        self.cache.info()
    }

    async fn follow_machine(&self, mut machine: WatchMachine) -> Infallible {
        loop {
            self.step(&mut machine).await;
        }
    }

    /// Sends the machine's next request.
    async fn step(&self, machine: &mut WatchMachine) {
        let (request, effect) = machine.request(Instant::now());
        self.apply_effect(effect);
        match request {
            WatchRequest::Pause(pause) => tokio::time::sleep(pause).await,
            WatchRequest::List { continue_token } => self.list(machine, continue_token).await,
            WatchRequest::Newest => self.ask_newest(machine).await,
            WatchRequest::StreamList => self.watch(machine, "", ShownBy::List).await,
            WatchRequest::Watch { revision } => self.watch(machine, &revision, ShownBy::Watch).await,
        }
    }

    async fn list(&self, machine: &mut WatchMachine, continue_token: Option<String>) {
        let signal = match self.read_page(PAGE_OBJECTS, continue_token).await {
            Ok(page) => {
                for item in page.items {
                    self.observe_item(item, Change::Listed);
                    self.wait_for_readers().await;
                }
                WatchSignal::Page { revision: page.revision, continue_token: page.continue_token }
            }
            Err(WatchFailure(WatchSignal::Expired)) if !self.cache.is_kept() => failed(SLOW_READERS).0,
            Err(WatchFailure(signal)) => signal,
        };
        self.apply_effect(machine.on(Instant::now(), signal));
    }

    /// Waits until the readers of a cache that keeps nothing have room for more.
    async fn wait_for_readers(&self) {
        if !self.cache.is_kept() {
            self.cache.room().await;
        }
    }

    /// Requests the smallest list, whose revision is the server's newest. Its object is ignored, because the list is
    /// not complete.
    async fn ask_newest(&self, machine: &mut WatchMachine) {
        let signal = match self.read_page(1, None).await {
            Ok(page) => WatchSignal::Newest { revision: page.revision },
            Err(WatchFailure(signal)) => signal,
        };
        self.apply_effect(machine.on(Instant::now(), signal));
    }

    async fn read_page(
        &self,
        limit: u32,
        continue_token: Option<String>,
    ) -> Result<decode_watch::ListPage, WatchFailure> {
        let params = ListParams {
            limit: Some(limit),
            continue_token,
            label_selector: self.scope.labels.clone(),
            ..ListParams::default()
        };
        let path = self.path();
        let request =
            if self.info().is_metadata_only { path.list_metadata(&params) } else { path.list(&params) };
        let body = self.send(request).await?;
        let body = timeout(ANSWER_MAX, body.collect())
            .await
            .map_err(|_| failed("the list was not sent in time"))?
            .map_err(|error| failed(format!("the list broke off: {error}")))?;
        decode_watch::decode_page(self.info(), &body.to_bytes())
            .map_err(|error| failed(format!("the list is not readable: {error}")))
    }

    async fn watch(&self, machine: &mut WatchMachine, revision: &str, by: ShownBy) {
        let params = WatchParams {
            timeout: Some(WATCH_SECONDS),
            label_selector: self.scope.labels.clone(),
            send_initial_events: by == ShownBy::List,
            ..WatchParams::default()
        };
        let path = self.path();
        let request = if self.info().is_metadata_only {
            path.watch_metadata(&params, revision)
        } else {
            path.watch(&params, revision)
        };
        let signal = match self.send(request).await {
            Ok(body) => {
                self.apply_effect(machine.on(Instant::now(), WatchSignal::Opened));
                self.follow(machine, body, by).await
            }
            Err(WatchFailure(signal)) => signal,
        };
        self.apply_effect(machine.on(Instant::now(), signal));
    }

    /// Reads watch lines until there are no more, and returns how the watch ended.
    async fn follow(&self, machine: &mut WatchMachine, body: Body, by: ShownBy) -> WatchSignal {
        let ended = async {
            let mut reading = WatchBody::new(body);
            if by == ShownBy::List {
                reading = self.follow_list(machine, reading).await?;
            }
            loop {
                let text = reading.line(SILENCE_MAX).await.map_err(WatchFailure)?;
                self.take_line(machine, decode_watch::decode_line(self.info(), &text), ShownBy::Watch)?;
                self.wait_for_readers().await;
            }
        };
        let ended: Result<Infallible, WatchFailure> = ended.await;
        let Err(WatchFailure(signal)) = ended;
        signal
    }

    async fn follow_list(
        &self,
        machine: &mut WatchMachine,
        reading: WatchBody,
    ) -> Result<WatchBody, WatchFailure> {
        let mut list = ListInProgress::read(self.info(), reading);
        while let Some(batch) = list.next().await {
            for line in batch {
                self.take_line(machine, line, ShownBy::List)?;
            }
        }
        list.end().await.map_err(WatchFailure)
    }

    fn take_line(
        &self,
        machine: &mut WatchMachine,
        line: WatchLine,
        by: ShownBy,
    ) -> Result<(), WatchFailure> {
        let signal = self.read_line(line, by)?;
        if machine.is_behind(&signal) {
            return Err(failed("the server sent an older revision than before"));
        }
        self.apply_effect(machine.on(Instant::now(), signal));
        Ok(())
    }

    fn read_line(&self, line: WatchLine, by: ShownBy) -> Result<WatchSignal, WatchFailure> {
        match line {
            WatchLine::Applied { item, .. } if by == ShownBy::List => {
                self.observe_item(item, Change::Listed);
                // Within a list the revisions of objects do not say where a watch may continue.
                Ok(WatchSignal::Event { revision: String::new() })
            }
            WatchLine::Applied { item, is_added } => {
                let revision = item.revision().to_owned();
                self.observe_item(item, if is_added { Change::Added } else { Change::Modified });
                Ok(WatchSignal::Event { revision })
            }
            WatchLine::Deleted { key, revision, last } => {
                if self.cache.is_kept() {
                    let observe = || self.cache.observe_deleted(key.clone(), parse_revision(Some(&revision)));
                    self.record_observed(in_observe_span(&key, observe));
                } else if let Ok(item) = decode_watch::decode_item(self.info(), &last) {
                    self.observe_item(item, Change::Deleted);
                }
                Ok(WatchSignal::Event { revision })
            }
            WatchLine::Bookmark { revision, ends_initial } => {
                self.cache.reached(parse_revision(Some(&revision)));
                Ok(WatchSignal::Bookmark { revision, ends_initial })
            }
            WatchLine::Error(status) => Err(trouble_from_status(&status)),
            WatchLine::Garbage(error) => {
                Err(failed(format!("the server sent something that is not a watch event: {error}")))
            }
        }
    }

    /// Stores an object as the server showed it. A cache that keeps objects determines the kind of change itself;
    /// otherwise the server's is used.
    fn observe_item(&self, item: ReceivedObject, change: Change) {
        match item {
            ReceivedObject::Good { key, object } if self.cache.is_kept() => {
                let by = shown_by(change);
                self.record_observed(in_observe_span(&key, || self.cache.observe(key.clone(), object, by)));
            }
            ReceivedObject::Good { key, object } => {
                self.record_observed(Some(in_observe_span(&key, || {
                    self.cache.pass_on(key.clone(), object, change)
                })));
            }
            ReceivedObject::Undecodable { key, error, .. } => {
                tracing::warn!(object = %key, %error, "object does not decode and is left out until it changes");
                self.journal
                    .record(&self.source, Entry::Quarantined { object: key.clone(), error: error.clone() });
                if self.cache.is_kept() {
                    self.cache.quarantine(&key, error, shown_by(change));
                }
            }
        }
    }

    fn record_observed(&self, delta: Option<ObjectDelta>) {
        if let Some(ObjectDelta { key: object, revision, change, .. }) = delta {
            self.journal.record(&self.source, Entry::Observed { object, revision, change });
        }
    }

    fn apply_effect(&self, effect: CacheEffect) {
        match effect {
            CacheEffect::None => {}
            CacheEffect::ListBegins => self.cache.begin_list(),
            CacheEffect::ListEnds { revision } => {
                for delta in self.cache.end_list(parse_revision(Some(&revision))) {
                    self.record_observed(Some(delta));
                }
                self.report_recovery();
                self.record_state(WatchState::Fresh);
            }
            CacheEffect::StreamFailed { error } => {
                let resource = &self.info().resource;
                tracing::debug!(%resource, %error, "the streaming list failed; listing in pages instead");
            }
            CacheEffect::Rewound { known, newest } => {
                let resource = &self.info().resource;
                tracing::warn!(
                    %resource, %known, %newest,
                    "the server went back in time (restored from a backup?); reading its current state again"
                );
            }
            CacheEffect::Resumed => {
                self.cache.set_state(WatchState::Fresh);
                self.report_recovery();
                self.record_state(WatchState::Fresh);
            }
            CacheEffect::Failing { error, retry, is_break } => {
                let error = format!("cannot watch {}: {error}", self.info().resource);
                if self.outage().fails(&error, is_break) {
                    tracing::warn!(%error, ?retry, "watch is cut off; retrying at least every 30 s");
                } else {
                    tracing::debug!(%error, ?retry, "watch is cut off");
                }
                let state = WatchState::Failing { error, retry };
                self.cache.set_state(state.clone());
                self.record_state(state);
            }
        }
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report_recovery(&self) {
        if self.outage().ends() {
            tracing::info!(resource = self.info().resource, "watch is in step again");
        }
    }

    fn record_state(&self, state: WatchState) {
        self.journal.record(&self.source, Entry::Watched { resource: self.info().resource.clone(), state });
    }

    fn path(&self) -> Path {
        self.info().path(self.scope.namespace.as_deref().filter(|_| self.info().is_namespaced))
    }

    /// Sends a request; any response other than success becomes a failure.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Body, WatchFailure> {
        let request = request.map_err(|error| failed(format!("the request cannot be built: {error}")))?;
        let answer = self.client.send(request.map(Body::from));
        let response = timeout(ANSWER_MAX, answer)
            .await
            .map_err(|_| WatchFailure(WatchSignal::Unanswered))?
            .map_err(|error| failed(format!("the server is not reachable: {error}")))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(trouble_from_status(&read_refusal(response).await))
    }
}

/// Calls `observe` in a separate span, to which the effects of the change are linked.
fn in_observe_span<T>(key: &Key, observe: impl FnOnce() -> T) -> T {
    tracing::debug_span!("observe", object = %key).in_scope(observe)
}

/// Returns the server's explanation of why it refused. If it is missing, late or too long, the status code has to
/// suffice.
async fn read_refusal(response: http::Response<Body>) -> Status {
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect();
    let text = match timeout(REFUSAL_MAX, body).await {
        Ok(Ok(text)) => text.to_bytes(),
        _ => Bytes::new(),
    };
    let words = || String::from_utf8_lossy(&text).into_owned();
    let status = serde_json::from_slice::<Status>(&text);
    status.unwrap_or_else(|_| Status::failure(&words(), "Unknown")).with_code(code)
}

fn shown_by(change: Change) -> ShownBy {
    if change == Change::Listed { ShownBy::List } else { ShownBy::Watch }
}

fn failed(error: impl Into<String>) -> WatchFailure {
    WatchFailure(WatchSignal::Failed { error: error.into() })
}

/// Returns the meaning of a Status for a watch.
fn trouble_from_status(status: &Status) -> WatchFailure {
    let code = status.code;
    if code == 410 {
        return WatchFailure(WatchSignal::Expired);
    }
    let hint = if code == 404 { " (is its CustomResourceDefinition installed?)" } else { "" };
    let error = match status.message.trim() {
        "" => format!("the server refused the request without giving a reason ({code})"),
        words if hint.is_empty() => format!("{words} ({code})"),
        words => format!("{words}{hint}"),
    };
    let said = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let seconds = if code == 429 { said.max(1) } else { said };
    let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    WatchFailure(WatchSignal::Refused { error, retry_after })
}
