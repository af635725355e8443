//! The stream behind the page Object: every revision in the window, the Events about it, and what operators did.
//!
//! **Invariant:** the journal is shown only to viewers whom the API lets read the object: the stream begins with a GET
//! by the viewer's token, and a refusal (403) ends it. Values of Secrets are removed before anything leaves this file.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use homeostat_core::Clock;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::activity::Activity;
use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::console_source::ConsoleSource;
use crate::event_stream_frame::{ALIVE, frame};
use crate::kinds::WatchedKind;
use crate::redact::{redact, redact_record};
use crate::row::Row;

/// How often the journal is read.
const LOOK: Duration = Duration::from_secs(1);

/// Looks after which a quiet stream says that it lives.
const ALIVE_LOOKS: u32 = 15;

/// The most records that are sent: the newest.
const RECORDS_MAX: usize = 400;

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

    /// Returns the path of its states from a revision on.
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

    /// Returns the path of the Events about it: those of an object without a namespace are in `default`.
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
    object: StoryObject,
    source: Arc<dyn ConsoleSource>,
    activity: Arc<Activity>,
    clock: Clock,
    watches: SelectAll<BoxStream<'static, (StoryPart, WatchItem)>>,
    first: Option<Bytes>,
    seen_records: Option<u64>,
    seen_count: usize,
    next_look: Instant,
    quiet_looks: u32,
}

/// Opens the story of an object, from `from` on if the window reaches so far.
pub(crate) async fn object_story(
    api: &ViewerApi,
    object: StoryObject,
    from: Option<u64>,
    source: Arc<dyn ConsoleSource>,
    activity: Arc<Activity>,
    clock: Clock,
) -> Result<BoxStream<'static, Bytes>, Refusal> {
    let current = match api.load(&object.path()).await {
        Ok(current) => Some(current),
        // It may have been there before: the window knows.
        Err(refusal) if refusal.code == 404 => None,
        Err(refusal) => return Err(refusal),
    };
    let shown = |value: &Value| redact(&object.kind, value.clone());
    let before = match from {
        Some(from) => {
            api.load(&object.list_path(from)).await.ok().and_then(|page| page["items"].get(0).map(shown))
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
        "key": Row::key(&object.kind, &object.namespace, &object.name),
    });
    let mut watches = SelectAll::new();
    let of_part = |part: StoryPart, path: String| api.watch(path).map(move |item| (part, item)).boxed();
    watches.push(of_part(StoryPart::Object, object.watch_path(watched_from)));
    watches.push(of_part(StoryPart::Events, object.events_path()));
    let next_look = clock.instant();
    let first = Some(frame("object", &head));
    let story = ObjectStory {
        object,
        source,
        activity,
        clock,
        watches,
        first,
        seen_records: None,
        seen_count: 0,
        next_look,
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
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.next_look) => {
                    self.next_look = self.clock.instant() + LOOK;
                    if let Some(bytes) = self.look() {
                        return Some(bytes);
                    }
                }
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

    fn revision(&self, object: Value, is_gone: bool) -> Bytes {
        let at = self.clock.now().as_millisecond();
        frame("revision", &json!({"gone": is_gone, "at": at, "object": redact(&self.object.kind, object)}))
    }

    /// Sends what operators did about the object, if they did anything since the last look.
    fn look(&mut self) -> Option<Bytes> {
        let records = self.activity.records();
        if self.seen_records != Some(records) {
            self.seen_records = Some(records);
            let key = Row::key(&self.object.kind, &self.object.namespace, &self.object.name);
            let about = self.source.records_about(&key);
            let count = about.len();
            let newest = &about[count.saturating_sub(RECORDS_MAX)..];
            let newest: Vec<Value> = newest.iter().map(redact_record).collect();
            // The ring drops the oldest when it is full, so the count alone does not tell.
            if count != self.seen_count || count >= RECORDS_MAX {
                self.seen_count = count;
                return Some(frame("records", &newest));
            }
        }
        self.quiet_looks += 1;
        self.quiet_looks.is_multiple_of(ALIVE_LOOKS).then_some(ALIVE)
    }
}

/// Returns what the page shows of an Event.
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
