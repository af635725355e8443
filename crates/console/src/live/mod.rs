//! The stream behind the pages Now and Time: all objects that a viewer may list, then their changes.
//!
//! The stream is pulled by the connection: nothing is read from the API while the viewer does not read, so a slow
//! viewer costs a bounded batch and falls behind alone. When a watch is cut off for that, its kind is listed again.
//!
//! **Invariant:** what a viewer gets is what the API answers to the viewer's token; a kind or namespace that is refused
//! is named in the frame `hidden` and not asked for again.

mod batch;
mod scope;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use homeostat_core::{Clock, Key};
use serde_json::{Value, json};
use tokio::time::Instant;

use batch::ChangeBatch;
use scope::KindScope;

use crate::activity::Activity;
use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::event_stream_frame::{ALIVE, frame};
use crate::field::revision;
use crate::kinds::load_kinds;
use crate::row::Row;
use crate::viewer::Viewer;

/// Objects per page of a list: a frame that a page handles well within a frame of the screen.
const PAGE_OBJECTS: usize = 500;

/// How long changes are gathered: a person sees no difference, and a thousand changes a second become ten frames.
const GATHER: Duration = Duration::from_millis(100);

/// How often operators are polled, and how often a quiet stream sends a sign of life.
const LOOK: Duration = Duration::from_secs(1);
const ALIVE_LOOKS: u32 = 15;

/// The pause before a kind that could not be listed is tried again.
const LIST_AGAIN: Duration = Duration::from_secs(5);

/// The pause before new definitions are looked for after one changed: it may take a moment until it is served.
const DISCOVER_AFTER: Duration = Duration::from_millis(300);

/// From where a stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStart {
    /// The present; several changes of one object become one.
    Now,
    /// This revision; every change is sent.
    Past(u64),
}

/// The state of one viewer's stream.
struct LiveStream {
    api: ViewerApi,
    viewer: Viewer,
    activity: Arc<Activity>,
    clock: Clock,
    start: StreamStart,
    scopes: Vec<KindScope>,
    to_list: VecDeque<ListInProgress>,
    list_again: Vec<(Instant, usize)>,
    watches: SelectAll<BoxStream<'static, (usize, WatchItem)>>,
    batch: ChangeBatch,
    ready: VecDeque<Bytes>,
    is_synced: bool,
    discover_at: Option<Instant>,
    next_look: Instant,
    quiet_looks: u32,
    seen_view: Value,
}

/// A list in progress.
struct ListInProgress {
    scope: usize,
    /// The token of the next page; none before the first.
    next: Option<String>,
}

/// Returns the frames of a viewer's stream. Dropping it ends its watches.
pub(crate) fn live_stream(
    api: ViewerApi,
    viewer: Viewer,
    activity: Arc<Activity>,
    clock: Clock,
    start: StreamStart,
) -> BoxStream<'static, Bytes> {
    let state = LiveStream {
        api,
        viewer,
        activity,
        clock,
        start,
        scopes: Vec::new(),
        to_list: VecDeque::new(),
        list_again: Vec::new(),
        watches: SelectAll::new(),
        batch: ChangeBatch::new(start),
        ready: VecDeque::new(),
        is_synced: false,
        discover_at: Some(clock.instant()),
        next_look: clock.instant() + LOOK,
        quiet_looks: 0,
        seen_view: Value::Null,
    };
    stream::unfold(state, |mut state| async move {
        let bytes = state.next_frame().await;
        Some((bytes, state))
    })
    .boxed()
}

impl LiveStream {
    async fn next_frame(&mut self) -> Bytes {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return bytes;
            }
            if self.discover_at.is_some_and(|at| at <= self.clock.instant()) {
                self.discover().await;
            } else if let Some(listing) = self.to_list.pop_front() {
                self.list_page(listing).await;
            } else if !self.is_synced {
                self.is_synced = true;
                self.ready.push_back(frame("synced", &json!({"at": self.clock.now().as_millisecond()})));
                self.look_at_operators();
            } else {
                self.wait().await;
            }
        }
    }

    /// Finds kinds that are not followed yet.
    async fn discover(&mut self) {
        self.discover_at = None;
        let kinds = match load_kinds(&self.api).await {
            Ok(kinds) => kinds,
            Err(refusal) => {
                self.ready.push_back(frame("refused", &json!({"message": refusal.message})));
                self.discover_at = Some(self.clock.instant() + LIST_AGAIN);
                return;
            }
        };
        self.ready.push_back(frame("kinds", &kinds));
        for kind in kinds {
            if !self.scopes.iter().any(|scope| scope.kind.id() == kind.id()) {
                self.scopes.push(KindScope { kind, namespace: None, is_open: false });
                self.to_list.push_back(ListInProgress { scope: self.scopes.len() - 1, next: None });
            }
        }
    }

    /// Loads one page of a list; after the last one the watch begins.
    async fn list_page(&mut self, listing: ListInProgress) {
        let scope = &self.scopes[listing.scope];
        let is_first = listing.next.is_none();
        let path = scope.list_path(PAGE_OBJECTS, listing.next.as_deref(), self.start);
        let page = match self.api.load(&path).await {
            Ok(page) => page,
            Err(refusal) => return self.refuse_list(&listing, &refusal),
        };
        let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<Row> = items.iter().map(|object| Row::new(&scope.kind, object)).collect();
        if !rows.is_empty() || !is_first || self.is_synced {
            let (kind, namespace) = (scope.kind.id(), &scope.namespace);
            let head = json!({"kind": kind, "ns": namespace, "first": is_first, "last": next.is_none(), "rows": rows});
            self.ready.push_back(frame("list", &head));
        }
        if let Some(token) = next {
            self.to_list.push_front(ListInProgress { scope: listing.scope, next: Some(token.to_owned()) });
            return;
        }
        let from = match self.start {
            StreamStart::Past(from) => from,
            StreamStart::Now => revision(&page["metadata"]),
        };
        self.watch(listing.scope, from);
    }

    fn watch(&mut self, index: usize, from: u64) {
        let scope = &mut self.scopes[index];
        scope.is_open = true;
        let items = self.api.watch(scope.watch_path(from));
        self.watches.push(items.map(move |item| (index, item)).boxed());
    }

    /// Handles a list that the server refused.
    fn refuse_list(&mut self, listing: &ListInProgress, refusal: &Refusal) {
        let scope = &self.scopes[listing.scope];
        match refusal.code {
            404 | 405 => {}
            // History moves on; the Time page asks again from where it begins now.
            410 if self.start != StreamStart::Now => {
                self.ready.push_back(frame("expired", &json!({"message": refusal.message})));
            }
            410 => self.to_list.push_front(ListInProgress { scope: listing.scope, next: None }),
            401 | 403 => {
                let (kind, namespace) = (scope.kind.clone(), scope.namespace.clone());
                self.ready.push_back(frame(
                    "hidden",
                    &json!({"kind": kind.id(), "ns": namespace, "message": refusal.message}),
                ));
                if namespace.is_none() && kind.is_namespaced {
                    for namespace in self.viewer.namespaces.clone() {
                        self.scopes.push(KindScope {
                            kind: kind.clone(),
                            namespace: Some(namespace),
                            is_open: false,
                        });
                        self.to_list.push_back(ListInProgress { scope: self.scopes.len() - 1, next: None });
                    }
                }
            }
            _ => self.list_again.push((self.clock.instant() + LIST_AGAIN, listing.scope)),
        }
    }

    /// Waits for changes, and returns when there is something to send or to do.
    async fn wait(&mut self) {
        let flush_at = self.batch.gathered_since().map(|since| since + GATHER);
        let wake_at = [flush_at, self.discover_at].into_iter().flatten().fold(self.next_look, Instant::min);
        let has_room = !self.batch.is_full() && !self.watches.is_empty();
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(wake_at) => {}
            Some((index, item)) = self.watches.next(), if has_room => {
                self.observe(index, item);
                if !self.batch.is_full() {
                    return;
                }
            }
        }
        let now = self.clock.instant();
        if self.batch.is_full() || flush_at.is_some_and(|at| at <= now) {
            self.ready.extend(self.batch.flush(self.clock.now().as_millisecond()));
        }
        if self.next_look <= now {
            self.look(now);
        }
    }

    fn observe(&mut self, index: usize, item: WatchItem) {
        let now = self.clock.instant();
        let scope = &mut self.scopes[index];
        match item {
            WatchItem::Set(object) => self.batch.set(Row::new(&scope.kind, &object), now),
            WatchItem::Gone(object) => self.batch.gone(Row::new(&scope.kind, &object), now),
            WatchItem::Ended(refusal) => {
                scope.is_open = false;
                let pause = if refusal.code == 410 { Duration::ZERO } else { LOOK };
                self.list_again.push((now + pause, index));
                return;
            }
        }
        if scope.kind.resource == "customresourcedefinitions" && self.discover_at.is_none() {
            self.discover_at = Some(now + DISCOVER_AFTER);
        }
    }

    /// Does what is due once a second.
    fn look(&mut self, now: Instant) {
        self.next_look = now + LOOK;
        let due = self.list_again.extract_if(.., |(at, _)| *at <= now);
        self.to_list.extend(due.map(|(_, scope)| ListInProgress { scope, next: None }));
        self.look_at_operators();
        self.quiet_looks += 1;
        if self.quiet_looks >= ALIVE_LOOKS {
            self.quiet_looks = 0;
            self.ready.push_back(ALIVE);
        }
    }

    /// Sends what the operators of this process do, if that differs from what was sent: rates fall while nothing
    /// happens.
    fn look_at_operators(&mut self) {
        if self.start != StreamStart::Now {
            return;
        }
        let (now, scopes) = (self.clock.now().as_millisecond(), &self.scopes);
        let is_visible = |key: &Key| scopes.iter().any(|scope| scope.covers(key));
        let view = self.activity.view(now, self.viewer.may_see_operators, is_visible);
        if view != self.seen_view {
            self.ready.push_back(frame("operators", &view));
            self.seen_view = view;
        }
    }
}
