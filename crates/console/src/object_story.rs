//! The stream behind the Object page: every revision in the window, the Events about the object, and what operators
//! did.
//!
//! **Invariant:** only viewers who may get the object see its journal: the stream begins with a GET using the viewer's
//! token, repeats it every half minute, and ends at the first refusal. Records that name an object that the viewer may
//! not get are left out. Values of Secrets are removed before anything leaves this file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use homeostat_core::activity::{Activity, OperatorAnswers};
use homeostat_core::write_history::{ObjectHistory, OperatorJournal};
use homeostat_core::{Clock, Key};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::bounded_json::{OBJECT_LIMITS, ROW_LIMITS};
use crate::console_source::ConsoleSource;
use crate::event_stream_frame::{ALIVE, frame};
use crate::kinds::WatchedKind;
use crate::object_access_check::{ANSWER_AGE_MAX, ObjectAccessCheck};
use crate::other_journals::{OtherJournals, RECORDS_MAX};
use crate::redact::{redact, redact_record, redact_write};
use crate::row::Row;

/// How often the journal is read.
const LOOK: Duration = Duration::from_secs(1);

/// The number of reads after which a quiet stream sends a keep-alive comment.
const ALIVE_LOOKS: u32 = 15;

/// The maximum number of writes to send from the server's history; older ones are left out.
const WRITES_MAX: usize = 100;

/// The object a story is about.
#[derive(Clone, Debug)]
pub(crate) struct StoryObject {
    pub(crate) kind: WatchedKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl StoryObject {
    fn collection(&self) -> String {
        self.kind.path(Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty()))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// Returns the path that watches the object from a revision on.
    fn watch_path(&self, from: u64) -> String {
        format!(
            "{}?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3D{}",
            self.collection(),
            self.name
        )
    }

    fn list_path(&self, at: u64) -> String {
        format!(
            "{}?resourceVersion={at}&resourceVersionMatch=Exact&fieldSelector=metadata.name%3D{}",
            self.collection(),
            self.name
        )
    }

    /// Returns the path of the object's history of writes, which only Homeostat servers have.
    fn history_path(&self) -> String {
        let (group, resource) = (&self.kind.group, &self.kind.resource);
        let (namespace, name) = (&self.namespace, &self.name);
        format!("/homeostat/history?group={group}&resource={resource}&namespace={namespace}&name={name}")
    }

    fn key(&self) -> Key {
        Row::key(&self.kind, &self.namespace, &self.name)
    }

    /// Returns the path of the Events about the object; for a cluster-scoped object they are in `default`.
    fn events_path(&self) -> String {
        let namespace = if self.namespace.is_empty() { "default" } else { &self.namespace };
        format!(
            "/api/v1/namespaces/{namespace}/events?watch=true&fieldSelector=involvedObject.name%3D{},involvedObject.kind%3D{}",
            self.name, self.kind.kind
        )
    }
}

/// Which watch an item came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoryPart {
    Object,
    Events,
}

struct ObjectStory {
    api: ViewerApi,
    rights: ObjectAccessCheck,
    object: StoryObject,
    source: Arc<dyn ConsoleSource>,
    activity: Arc<Activity>,
    clock: Clock,
    watches: SelectAll<BoxStream<'static, (StoryPart, WatchItem)>>,
    /// The number of records of all objects at the last read.
    seen_records: Option<u64>,
    sent_records: Vec<Value>,
    others: OtherJournals,
    /// Whether the server has a history, and whether the object has changed since the history was last read.
    has_history: bool,
    is_history_due: bool,
    sent_writes: Vec<Value>,
    ready: VecDeque<Bytes>,
    next_look: Instant,
    next_review: Instant,
    quiet_looks: u32,
}

/// Opens the story of an object, starting at `from` if history reaches that far.
pub(crate) async fn object_story(
    api: &ViewerApi,
    object: StoryObject,
    from: Option<u64>,
    source: Arc<dyn ConsoleSource>,
    activity: Arc<Activity>,
    clock: Clock,
) -> Result<BoxStream<'static, Bytes>, Refusal> {
    let current = match api.load_object(&object.path()).await {
        Ok(current) => Some(current),
        // It may have existed earlier, in which case the window shows it.
        Err(refusal) if refusal.code == 404 => None,
        Err(refusal) => return Err(refusal),
    };
    let shown = |value: &Value| redact(&object.kind, value.clone());
    let before = match from {
        Some(from) => {
            let mut state = None;
            let loaded = api.load_list(&object.list_path(from), OBJECT_LIMITS, |one| state = Some(one)).await;
            state.as_ref().filter(|_| loaded.is_ok()).map(shown)
        }
        None => None,
    };
    let watched_from = match (from, &current) {
        (Some(from), _) => from,
        (None, Some(current)) => crate::field::revision(&current["metadata"]),
        (None, None) => 0,
    };
    let head = json!({
        "current": current.as_ref().map(shown), "before": before, "kind": object.kind,
        "key": object.key(),
    });
    let mut watches = SelectAll::new();
    let of_part =
        |part: StoryPart, path: String, limits| api.watch(path, limits).map(move |item| (part, item)).boxed();
    watches.push(of_part(StoryPart::Object, object.watch_path(watched_from), OBJECT_LIMITS));
    watches.push(of_part(StoryPart::Events, object.events_path(), ROW_LIMITS));
    let now = clock.instant();
    let story = ObjectStory {
        api: api.clone(),
        rights: ObjectAccessCheck::new(api.clone(), now),
        object,
        source,
        activity,
        clock,
        watches,
        seen_records: None,
        sent_records: Vec::new(),
        others: OtherJournals::new(api.operators(), now),
        has_history: true,
        is_history_due: true,
        sent_writes: Vec::new(),
        ready: VecDeque::from([frame("object", &head)]),
        next_look: now,
        next_review: now + ANSWER_AGE_MAX,
        quiet_looks: 0,
    };
    let frames =
        stream::unfold(
            story,
            |mut story| async move { story.next_frame().await.map(|bytes| (bytes, story)) },
        );
    Ok(frames.boxed())
}

impl ObjectStory {
    /// Returns the next frame; `None` if the object can no longer be followed, so that the page asks again.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.next_look) => {
                    self.next_look = self.clock.instant() + LOOK;
                    if !self.look().await {
                        return None;
                    }
                }
                answers = self.others.answered() => self.take_others(&answers),
                Some((part, item)) = self.watches.next(), if !self.watches.is_empty() => {
                    match (part, item) {
                        (StoryPart::Object, WatchItem::Ended(_)) => return None,
                        (StoryPart::Events, WatchItem::Ended(_)) => {}
                        (StoryPart::Object, WatchItem::Set(object)) => return Some(self.revision(object, false)),
                        (StoryPart::Object, WatchItem::Gone(object)) => return Some(self.revision(object, true)),
                        (StoryPart::Events, WatchItem::Set(event) | WatchItem::Gone(event)) => {
                            return Some(frame("event", &shorten_event(&event)));
                        }
                    }
                }
            }
        }
    }

    fn revision(&mut self, object: Value, is_gone: bool) -> Bytes {
        self.is_history_due = true;
        let at = self.clock.now().as_millisecond();
        frame("revision", &json!({"gone": is_gone, "at": at, "object": redact(&self.object.kind, object)}))
    }

    /// Does what is due once a second. Returns whether the viewer may still get the object.
    async fn look(&mut self) -> bool {
        let now = self.clock.instant();
        if self.next_review <= now {
            self.next_review = now + ANSWER_AGE_MAX;
            self.seen_records = None;
            self.is_history_due = true;
            if !self.rights.may_get(&self.object.key(), now).await {
                return false;
            }
        }
        self.look_at_records(now).await;
        self.others.ask_if_due(&self.object.key(), now);
        if self.has_history && std::mem::take(&mut self.is_history_due) {
            self.look_at_history().await;
        }
        self.quiet_looks += 1;
        if self.quiet_looks.is_multiple_of(ALIVE_LOOKS) {
            self.ready.push_back(ALIVE);
        }
        true
    }

    /// Sends what operators did about the object, if that differs from what was sent.
    async fn look_at_records(&mut self, now: Instant) {
        let records = self.activity.records();
        if self.seen_records == Some(records) {
            return;
        }
        self.seen_records = Some(records);
        let mut about = self.source.records_about(&self.object.key());
        about.extend_from_slice(self.others.records());
        about.sort_by_key(|record| record.at);
        about.drain(..about.len().saturating_sub(RECORDS_MAX));
        let readable = self.rights.readable_records(about, now).await;
        let shown: Vec<Value> = readable.iter().map(redact_record).collect();
        if shown != self.sent_records {
            self.ready.push_back(frame("records", &shown));
            self.sent_records = shown;
        }
    }

    /// Takes what the operators of other processes did about the object, and sends which of them did not answer.
    fn take_others(&mut self, answers: &OperatorAnswers<OperatorJournal>) {
        if self.others.take(&self.object.key(), answers) {
            self.seen_records = None;
        }
        if let Some(silent) = self.others.silent(answers) {
            self.ready.push_back(frame("silent", &silent));
        }
    }

    /// Sends who wrote the object and which writes were refused, according to the server's history.
    async fn look_at_history(&mut self) {
        let history = match self.api.load(&self.object.history_path()).await {
            Ok(history) => history,
            Err(refusal) => {
                self.has_history = !matches!(refusal.code, 403 | 404);
                return;
            }
        };
        let Ok(ObjectHistory { mut writes, .. }) = serde_json::from_value(history) else { return };
        writes.drain(..writes.len().saturating_sub(WRITES_MAX));
        let shown: Vec<Value> = writes.iter().map(redact_write).collect();
        if shown != self.sent_writes {
            self.ready.push_back(frame("writes", &shown));
            self.sent_writes = shown;
        }
    }
}

/// Returns the part of an Event that the page shows.
fn shorten_event(event: &Value) -> Value {
    let count = event["count"].as_i64().or(event["series"]["count"].as_i64()).unwrap_or(1);
    let last =
        ["lastTimestamp", "eventTime", "firstTimestamp"].into_iter().find(|name| event[*name].is_string());
    json!({
        "uid": event["metadata"]["uid"], "type": event["type"], "reason": event["reason"], "message": event["message"],
        "count": count, "at": last.map(|name| event[name].clone()),
        "by": event["reportingComponent"].as_str().filter(|name| !name.is_empty()).or(event["source"]["component"].as_str()),
    })
}
