//! The async shell around the list/watch machine: sends its requests, cuts the answers into objects, feeds the cache,
//! writes the journal. It never returns; dropping it closes the connection and leaves the cache as it was.
//!
//! A cache that keeps nothing only passes on what it is fed. Then the watch waits for whoever reads it, so that what waits
//! is the server's and not our memory.

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

use super::machine::{Effect, Machine, Request, Signal};
use super::outage::Outage;
use super::read_ahead::{List, Reading};
use super::wire::{self, Item, Line};
use crate::cache::{ObjectCache, ObjectDelta};
use crate::journal::Journal;
use crate::kind::KindInfo;

/// Objects per page: what client-go asks for, and what servers are tuned to.
const PAGE_OBJECTS: u32 = 500;

/// A watch is renewed this often, so that a server can shed connections.
const WATCH_SECONDS: u32 = 290;

/// Bookmarks come about once a minute; three missed ones mean a dead connection or a server without bookmarks, and a
/// new watch settles which.
const SILENCE_MAX: Duration = Duration::from_secs(200);

/// An answer to a request begins, and a page is read, within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long the words of a refusal may take: its code has come, and they are a few hundred bytes.
const REFUSAL_MAX: Duration = Duration::from_secs(10);

/// The longest words of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// Why a list of a kind that nobody caches expires.
const SLOW_READERS: &str = "the list expired before its event handlers were through with it: they take longer than the \
                            server keeps a list; let them hand long work on, or use handlers that keep progress";

/// Which objects of a kind are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
}

/// Everything one watch needs.
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) cache: ObjectCache,
    pub(crate) scope: Scope,
    pub(crate) journal: Journal,
    pub(crate) source: Source,
    pub(crate) entropy: Entropy,
    pub(crate) outage: Mutex<Outage>,
}

/// Keeps the cache in step with the server for as long as it is polled.
pub(crate) async fn drive(feed: Feed) {
    let is_kept = feed.cache.is_kept();
    loop {
        let entropy = feed.entropy.clone();
        let machine = if is_kept { Machine::new(entropy) } else { Machine::in_pages(entropy) };
        tokio::select! {
            never = feed.follow_machine(machine) => match never {},
            // Where the objects are kept, nobody needs the server to show them again.
            () = feed.cache.relist_wanted(), if !is_kept => {}
        }
    }
}

/// A failed exchange, as far as the machine cares.
struct WatchTrouble(Signal);

impl Feed {
    fn info(&self) -> &'static KindInfo {
        self.cache.info()
    }

    async fn follow_machine(&self, mut machine: Machine) -> Infallible {
        loop {
            self.step(&mut machine).await;
        }
    }

    /// Does what the machine asks for next.
    async fn step(&self, machine: &mut Machine) {
        let (request, effect) = machine.request(Instant::now());
        self.obey(effect);
        match request {
            Request::Pause(pause) => tokio::time::sleep(pause).await,
            Request::List { continue_token } => self.list(machine, continue_token).await,
            Request::Newest => self.ask_newest(machine).await,
            Request::StreamList => self.watch(machine, "", true).await,
            Request::Watch { revision } => self.watch(machine, &revision, false).await,
        }
    }

    async fn list(&self, machine: &mut Machine, continue_token: Option<String>) {
        let signal = match self.read_page(PAGE_OBJECTS, continue_token).await {
            Ok(page) => {
                for item in page.items {
                    self.observe_item(item, Change::Listed);
                    self.wait_for_readers().await;
                }
                Signal::Page { revision: page.revision, continue_token: page.continue_token }
            }
            Err(WatchTrouble(Signal::Expired)) if !self.cache.is_kept() => failed(SLOW_READERS).0,
            Err(WatchTrouble(signal)) => signal,
        };
        self.obey(machine.on(Instant::now(), signal));
    }

    /// Waits until whoever reads a cache that keeps nothing has room for more.
    async fn wait_for_readers(&self) {
        if !self.cache.is_kept() {
            self.cache.room().await;
        }
    }

    /// The revision of the smallest list is the server's newest; its object is not taken, for it is no whole list.
    async fn ask_newest(&self, machine: &mut Machine) {
        let signal = match self.read_page(1, None).await {
            Ok(page) => Signal::Newest { revision: page.revision },
            Err(WatchTrouble(signal)) => signal,
        };
        self.obey(machine.on(Instant::now(), signal));
    }

    async fn read_page(
        &self,
        limit: u32,
        continue_token: Option<String>,
    ) -> Result<wire::ListPage, WatchTrouble> {
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
        wire::page(self.info(), &body.to_bytes())
            .map_err(|error| failed(format!("the list is not readable: {error}")))
    }

    async fn watch(&self, machine: &mut Machine, revision: &str, is_list: bool) {
        let params = WatchParams {
            timeout: Some(WATCH_SECONDS),
            label_selector: self.scope.labels.clone(),
            send_initial_events: is_list,
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
                self.obey(machine.on(Instant::now(), Signal::Opened));
                self.follow(machine, body, is_list).await
            }
            Err(WatchTrouble(signal)) => signal,
        };
        self.obey(machine.on(Instant::now(), signal));
    }

    /// Reads watch lines until there are no more; returns how it ended.
    async fn follow(&self, machine: &mut Machine, body: Body, is_list: bool) -> Signal {
        let ended = async {
            let mut reading = Reading::new(body);
            if is_list {
                reading = self.follow_list(machine, reading).await?;
            }
            loop {
                let text = reading.line(SILENCE_MAX).await.map_err(WatchTrouble)?;
                self.heed(machine, wire::line(self.info(), &text), false)?;
                self.wait_for_readers().await;
            }
        };
        let ended: Result<Infallible, WatchTrouble> = ended.await;
        let Err(WatchTrouble(signal)) = ended;
        signal
    }

    async fn follow_list(&self, machine: &mut Machine, reading: Reading) -> Result<Reading, WatchTrouble> {
        let mut list = List::read(self.info(), reading);
        while let Some(batch) = list.next().await {
            for line in batch {
                self.heed(machine, line, true)?;
            }
        }
        list.end().await.map_err(WatchTrouble)
    }

    fn heed(&self, machine: &mut Machine, line: Line, is_list: bool) -> Result<(), WatchTrouble> {
        let signal = self.read_line(line, is_list)?;
        if machine.is_behind(&signal) {
            return Err(failed("the server sent an older revision than before"));
        }
        self.obey(machine.on(Instant::now(), signal));
        Ok(())
    }

    fn read_line(&self, line: Line, is_list: bool) -> Result<Signal, WatchTrouble> {
        match line {
            Line::Applied { item, .. } if is_list => {
                self.observe_item(item, Change::Listed);
                // Within a list the revisions of objects say nothing about where a watch may go on.
                Ok(Signal::Event { revision: String::new() })
            }
            Line::Applied { item, is_added } => {
                let revision = item.revision().to_owned();
                self.observe_item(item, if is_added { Change::Added } else { Change::Modified });
                Ok(Signal::Event { revision })
            }
            Line::Deleted { key, revision, last } => {
                if self.cache.is_kept() {
                    let observe = || self.cache.observe_deleted(key.clone(), wire::revision(&revision));
                    self.record_observed(spanned(&key, observe));
                } else if let Ok(item) = wire::decode(self.info(), &last) {
                    self.observe_item(item, Change::Deleted);
                }
                Ok(Signal::Event { revision })
            }
            Line::Bookmark { revision, ends_initial } => {
                self.cache.reached(wire::revision(&revision));
                Ok(Signal::Bookmark { revision, ends_initial })
            }
            Line::Error(status) => Err(trouble(&status)),
            Line::Garbage(error) => Err(failed(format!("the server sent what is no watch event: {error}"))),
        }
    }

    /// Takes in an object as it was shown. A cache says itself what sort of change that is; without one it is what the
    /// server says.
    fn observe_item(&self, item: Item, change: Change) {
        match item {
            Item::Good { key, object } if self.cache.is_kept() => {
                let is_list = change == Change::Listed;
                self.record_observed(spanned(&key, || self.cache.observe(key.clone(), object, is_list)));
            }
            Item::Good { key, object } => {
                self.record_observed(Some(spanned(&key, || self.cache.pass_on(key.clone(), object, change))));
            }
            Item::Undecodable { key, error, .. } => {
                tracing::warn!(object = %key, %error, "object does not decode and is left out until it changes");
                self.journal
                    .record(&self.source, Entry::Quarantined { object: key.clone(), error: error.clone() });
                if self.cache.is_kept() {
                    self.cache.quarantine(&key, error, change == Change::Listed);
                }
            }
        }
    }

    fn record_observed(&self, delta: Option<ObjectDelta>) {
        if let Some(ObjectDelta { key: object, revision, change, .. }) = delta {
            self.journal.record(&self.source, Entry::Observed { object, revision, change });
        }
    }

    fn obey(&self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::ListBegins => self.cache.begin_list(),
            Effect::ListEnds { revision } => {
                for delta in self.cache.end_list(wire::revision(&revision)) {
                    self.record_observed(Some(delta));
                }
                self.tell_return();
                self.note_state(WatchState::Fresh);
            }
            Effect::StreamFailed { error } => {
                let resource = &self.info().resource;
                tracing::debug!(%resource, %error, "the streaming list failed; listing in pages instead");
            }
            Effect::Rewound { known, newest } => {
                let resource = &self.info().resource;
                tracing::warn!(
                    %resource, %known, %newest,
                    "the server went back in time (restored from a backup?); what it has now is read again"
                );
            }
            Effect::Resumed => {
                self.cache.set_state(WatchState::Fresh);
                self.tell_return();
                self.note_state(WatchState::Fresh);
            }
            Effect::Failing { error, retry, is_break } => {
                let error = format!("cannot watch {}: {error}", self.info().resource);
                if self.outage().fails(&error, is_break) {
                    tracing::warn!(%error, ?retry, "watch is cut off; trying again, at the latest every half a minute");
                } else {
                    tracing::debug!(%error, ?retry, "watch is cut off");
                }
                let state = WatchState::Failing { error, retry };
                self.cache.set_state(state.clone());
                self.note_state(state);
            }
        }
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_return(&self) {
        if self.outage().ends() {
            tracing::info!(resource = self.info().resource, "watch is in step again");
        }
    }

    fn note_state(&self, state: WatchState) {
        self.journal.record(&self.source, Entry::Watched { resource: self.info().resource.clone(), state });
    }

    fn path(&self) -> Path {
        self.info().path(self.scope.namespace.as_deref().filter(|_| self.info().is_namespaced))
    }

    /// Sends a request; anything but success becomes trouble.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Body, WatchTrouble> {
        let request = request.map_err(|error| failed(format!("the request cannot be built: {error}")))?;
        let answer = self.client.send(request.map(Body::from));
        let response = timeout(ANSWER_MAX, answer)
            .await
            .map_err(|_| WatchTrouble(Signal::Unanswered))?
            .map_err(|error| failed(format!("the server is not reachable: {error}")))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(trouble(&refusal(response).await))
    }
}

/// What a change causes is linked to its observation.
fn spanned<T>(key: &Key, observe: impl FnOnce() -> T) -> T {
    tracing::debug_span!("observe", object = %key).in_scope(observe)
}

/// What the server says about its refusal. Where that does not come, comes too late or is too long, the code has to do.
async fn refusal(response: http::Response<Body>) -> Status {
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

fn failed(error: impl Into<String>) -> WatchTrouble {
    WatchTrouble(Signal::Failed { error: error.into() })
}

/// What a Status means to a watch.
fn trouble(status: &Status) -> WatchTrouble {
    let code = status.code;
    if code == 410 {
        return WatchTrouble(Signal::Expired);
    }
    let hint = if code == 404 { " (is its CustomResourceDefinition installed?)" } else { "" };
    let error = match status.message.trim() {
        "" => format!("the server refused without a word ({code})"),
        words if hint.is_empty() => format!("{words} ({code})"),
        words => format!("{words}{hint}"),
    };
    let said = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let seconds = if code == 429 { said.max(1) } else { said };
    let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    WatchTrouble(Signal::Refused { error, retry_after })
}
