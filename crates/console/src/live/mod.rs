//! The stream behind the pages Now and Time: all objects that a viewer may list, then their changes.
//!
//! The connection pulls the stream: nothing is read from the API while the viewer does not read, so a slow viewer costs
//! a bounded batch and only that viewer falls behind. If a watch is cut off as a result, its kind is listed again.
//! Nobody reads thousands of changes a second, and showing them would cost more than making them: a kind that changes
//! that fast is listed from time to time instead (`change_rate`).
//!
//! **Invariant:** what a viewer gets is what the API answers to the viewer's token; a kind or namespace that is refused
//! is named in the frame `hidden` and not asked for again. The stream ends when the token is no longer valid, and
//! within seconds when the viewer's roles change; the page then asks again and gets what is allowed now.

mod batch;
mod change_rate;
mod other_operators;
mod scope;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use homeostat_core::activity::{Activity, ActivityReport, OperatorActivity, OperatorAnswers};
use homeostat_core::{Clock, Key};
use serde_json::{Value, json};
use tokio::time::Instant;

use batch::ChangeBatch;
use change_rate::ChangeRate;
use other_operators::OtherOperatorsQuestion;
use scope::KindScope;

use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::bounded_json::ROW_LIMITS;
use crate::event_stream_frame::{ALIVE, frame};
use crate::field::revision;
use crate::kinds::load_kinds;
use crate::object_access_check::ANSWER_AGE_MAX;
use crate::row::Row;
use crate::viewer_login::Viewer;

/// Objects per page of a list: what a page handles well within one screen refresh.
const PAGE_OBJECTS: usize = 500;

/// How long changes are gathered: the delay is imperceptible, and a thousand changes a second become ten frames.
const GATHER: Duration = Duration::from_millis(100);

/// How often operators are polled, and how often a quiet stream sends a keep-alive comment.
const LOOK: Duration = Duration::from_secs(1);
const ALIVE_LOOKS: u32 = 15;

/// How often the server is asked what the viewer may do: the stream ends this long after a role is revoked.
const RULES_AGAIN: Duration = Duration::from_secs(3);

/// How often the server is asked for fields that two writers change back and forth.
const FIGHTS_AGAIN: Duration = Duration::from_secs(5);

/// The path on which a Homeostat server reports them. Other servers do not have it.
const FIGHTS_PATH: &str = "/homeostat/fights";

/// The pause before retrying a kind that could not be listed.
const LIST_AGAIN: Duration = Duration::from_secs(5);

/// The pause between a change of a definition and looking for its kinds: serving it may take a moment.
const DISCOVER_AFTER: Duration = Duration::from_millis(300);

/// Where a stream starts.
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
    next_review: Instant,
    next_rules: Instant,
    /// What the viewer may do; `None` before the first response.
    rules: Option<BTreeSet<String>>,
    /// `None` if the server does not know.
    next_fights: Option<Instant>,
    seen_fights: Value,
    quiet_looks: u32,
    seen_view: Option<OperatorActivity>,
    others: OtherOperatorsQuestion,
}

/// A list in progress.
struct ListInProgress {
    scope: usize,
    /// The token of the next page; `None` before the first.
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
    let operators = api.operators().filter(|_| start == StreamStart::Now);
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
        next_review: clock.instant() + ANSWER_AGE_MAX,
        next_rules: clock.instant(),
        rules: None,
        next_fights: (start == StreamStart::Now).then(|| clock.instant()),
        seen_fights: json!([]),
        quiet_looks: 0,
        seen_view: None,
        others: OtherOperatorsQuestion::new(operators, clock.instant()),
    };
    stream::unfold(state, |mut state| async move { state.next_frame().await.map(|bytes| (bytes, state)) })
        .boxed()
}

impl LiveStream {
    /// Returns the next frame; `None` if the token is no longer valid, so that the page asks again.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.next_review <= self.clock.instant() {
                self.next_review = self.clock.instant() + ANSWER_AGE_MAX;
                let viewer = Viewer::load(&self.api, None).await.ok()?;
                self.viewer.may_see_operators = viewer.may_see_operators;
            }
            if self.next_rules <= self.clock.instant() && self.have_rules_changed().await {
                return None;
            }
            if self.discover_at.is_some_and(|at| at <= self.clock.instant()) {
                self.discover().await;
            } else if let Some(listing) = self.to_list.pop_front() {
                self.list_page(listing).await;
            } else if !self.is_synced {
                self.is_synced = true;
                self.ready.push_back(frame("synced", &json!({"at": self.clock.now().as_millisecond()})));
                self.look_at_operators();
            } else if self.next_fights.is_some_and(|at| at <= self.clock.instant()) {
                self.look_at_fights().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// Returns whether the viewer's rights have changed since the stream began, or the token is no longer valid.
    async fn have_rules_changed(&mut self) -> bool {
        self.next_rules = self.clock.instant() + RULES_AGAIN;
        match self.viewer.load_rules(&self.api).await {
            Ok(rules) => *self.rules.get_or_insert_with(|| rules.clone()) != rules,
            // A server that cannot tell, or is busy, says nothing about rights; watches and reviews still enforce them.
            Err(refusal) => refusal.code == 401,
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
                self.scopes.push(KindScope::new(kind, None, self.clock.instant()));
                self.to_list.push_back(ListInProgress { scope: self.scopes.len() - 1, next: None });
            }
        }
    }

    /// Loads one page of a list; after the last one the watch begins.
    async fn list_page(&mut self, listing: ListInProgress) {
        let scope = &self.scopes[listing.scope];
        let is_first = listing.next.is_none();
        let path = scope.list_path(PAGE_OBJECTS, listing.next.as_deref(), self.start);
        let mut rows = Vec::new();
        let each = |object: Value| rows.push(Row::new(&scope.kind, &object));
        let head = match self.api.load_list(&path, ROW_LIMITS, each).await {
            Ok(head) => head,
            Err(refusal) => return self.refuse_list(&listing, &refusal),
        };
        let next = head["continue"].as_str().filter(|token| !token.is_empty());
        let listed = if is_first { rows.len() } else { scope.listed + rows.len() };
        if !rows.is_empty() || !is_first || self.is_synced {
            let (kind, namespace) = (scope.kind.id(), &scope.namespace);
            let list = json!({"kind": kind, "ns": namespace, "first": is_first, "last": next.is_none(), "rows": rows});
            self.ready.push_back(frame("list", &list));
        }
        self.scopes[listing.scope].listed = listed;
        if let Some(token) = next {
            self.to_list.push_front(ListInProgress { scope: listing.scope, next: Some(token.to_owned()) });
            return;
        }
        let from = match self.start {
            StreamStart::Past(from) => from,
            StreamStart::Now => revision(&head),
        };
        self.watch(listing.scope, from);
    }

    fn watch(&mut self, index: usize, from: u64) {
        let scope = &mut self.scopes[index];
        scope.is_open = true;
        let items = self.api.watch(scope.watch_path(from), ROW_LIMITS);
        let (items, stop) = stream::abortable(items.map(move |item| (index, item)));
        scope.rate = ChangeRate::new(self.clock.instant());
        scope.stop_watch = Some(stop);
        self.watches.push(items.boxed());
    }

    /// Handles a list request that the server refused.
    fn refuse_list(&mut self, listing: &ListInProgress, refusal: &Refusal) {
        let scope = &self.scopes[listing.scope];
        match refusal.code {
            404 | 405 => {}
            // The start of history has moved on; the Time page asks again from the new start.
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
                    let now = self.clock.instant();
                    for namespace in self.viewer.namespaces.clone() {
                        self.scopes.push(KindScope::new(kind.clone(), Some(namespace), now));
                        self.to_list.push_back(ListInProgress { scope: self.scopes.len() - 1, next: None });
                    }
                }
            }
            _ => self.list_again.push((self.clock.instant() + LIST_AGAIN, listing.scope)),
        }
    }

    /// Waits for changes until there is something to send or to do.
    async fn wait(&mut self) {
        let flush_at = self.batch.gathered_since().map(|since| since + GATHER);
        let wake_at = [flush_at, self.discover_at].into_iter().flatten().fold(self.next_look, Instant::min);
        let has_room = !self.batch.is_full() && !self.watches.is_empty();
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(wake_at) => {}
            answers = self.others.answered() => self.take_others(&answers),
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
        // Every change of the past is sent.
        if self.start == StreamStart::Now && scope.rate.is_too_fast(now) {
            scope.stop_watch.take().inspect(stream::AbortHandle::abort);
            self.list_again.push((now + change_rate::pause_before_list(scope.listed), index));
        }
        if scope.kind.resource == "customresourcedefinitions" && self.discover_at.is_none() {
            self.discover_at = Some(now + DISCOVER_AFTER);
        }
    }

    /// Sends the fields that two writers change back and forth, if they differ from what was sent.
    async fn look_at_fights(&mut self) {
        self.next_fights = Some(self.clock.instant() + FIGHTS_AGAIN);
        match self.api.load(FIGHTS_PATH).await {
            Ok(mut answer) => {
                let fights = answer.get_mut("fights").map(Value::take).unwrap_or_default();
                if fights != self.seen_fights {
                    self.ready.push_back(frame("fights", &fights));
                    self.seen_fights = fights;
                }
            }
            Err(refusal) if matches!(refusal.code, 403 | 404) => self.next_fights = None,
            Err(_) => {}
        }
    }

    /// Does what is due once a second.
    fn look(&mut self, now: Instant) {
        self.next_look = now + LOOK;
        let due = self.list_again.extract_if(.., |(at, _)| *at <= now);
        self.to_list.extend(due.map(|(_, scope)| ListInProgress { scope, next: None }));
        self.look_at_operators();
        self.others.ask_if_due(now);
        self.quiet_looks += 1;
        if self.quiet_looks >= ALIVE_LOOKS {
            self.quiet_looks = 0;
            self.ready.push_back(ALIVE);
        }
    }

    /// Sends what the operators of other processes are doing, if that differs from what was sent.
    fn take_others(&mut self, answers: &OperatorAnswers<ActivityReport>) {
        let scopes = &self.scopes;
        let is_visible = |key: &Key| scopes.iter().any(|scope| scope.covers(key));
        if let Some(view) = self.others.view(answers, self.viewer.may_see_operators, is_visible) {
            self.ready.push_back(frame("others", &view));
        }
    }

    /// Sends what the operators of this process are doing, if that differs from what was sent: rates fall even while
    /// nothing happens.
    fn look_at_operators(&mut self) {
        if self.start != StreamStart::Now {
            return;
        }
        let (now, scopes) = (self.clock.now().as_millisecond(), &self.scopes);
        let is_visible = |key: &Key| scopes.iter().any(|scope| scope.covers(key));
        let view = self.activity.view(now, self.viewer.may_see_operators, is_visible);
        if self.seen_view.as_ref() != Some(&view) {
            self.ready.push_back(frame("operators", &view));
            self.seen_view = Some(view);
        }
    }
}
