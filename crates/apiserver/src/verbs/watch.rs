//! Implements watch: a stream of events, first for the existing objects if requested, then for the changes.
//!
//! Events that are waiting at the same time are written as one piece, so a busy watch costs few writes; if a resource
//! has many watchers, a short pause between pieces lets more events accumulate. A watcher that falls behind the history
//! gets a 410 event, and its stream ends; other watchers are not affected.

mod converted;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use homeostat_api::encode;
use homeostat_api::negotiate::{AnswerEncoding, ObjectForm, Representation};
use homeostat_api::protobuf;
use homeostat_api::resource::KindSource;
use homeostat_api::response_forms::FormRenderer;
use homeostat_api::status::Status;
use homeostat_core::{Prefix, Revision};
use homeostat_store::{Entry, Error as StoreError, Event, Snapshot, Watch};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::get::revision_too_large;
use super::list_items::PIECE_WORK_MAX;
use super::request_selectors::RequestSelectors;
use super::watch_options::{WatchStart, watch_timeout};
use super::{Answer, AuthorizedRequest};
use crate::body::{Body, PIECE_BYTES};
use crate::expensive_requests::{EXPENSIVE_BYTES, RequestCost};
use crate::stored::convert;

/// The media type of a stream of protobuf events.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// How often a bookmark is sent to a watch that allows them, as in Kubernetes.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long before the end of a watch with a timeout the last bookmark is sent.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// How long a watch from a future revision stays silent before it is refused. Kubernetes waits this long for its
/// cache to catch up.
const FUTURE_PATIENCE: Duration = Duration::from_secs(3);
/// The number of watches on one resource from which on events are gathered: sending each event to every watch
/// immediately would cost more than the writes themselves. Fewer watches get events immediately.
const CROWD: usize = 16;
/// How long events gather for such a watch after its last piece: long enough to fill a TLS record under load, and too
/// short for any reconciler to notice.
const GATHER: Duration = Duration::from_millis(8);

/// Opens the stream.
pub(super) fn watch(call: AuthorizedRequest) -> Result<Answer, Status> {
    if !call.resource.allows("watch") {
        return Err(Status::method_not_allowed());
    }
    let selection = RequestSelectors::parse(&call)?;
    let start = WatchStart::parse(&call)?;
    let timeout = watch_timeout(&call)?;
    let snapshot = call.backend.store.snapshot();
    if start.at_least > snapshot.revision() {
        return Err(revision_too_large(start.at_least, snapshot.revision()));
    }
    let prefix = call.prefix();
    let from = start.from.unwrap_or_else(|| snapshot.revision());
    if from > snapshot.revision() {
        return Ok(refuse_future_revision(call.accepted.media, from, snapshot.revision(), timeout));
    }
    let opened = call.backend.store.watch(&prefix, from);
    let (watch, refused) = match opened {
        Ok(watch) => (Some(watch), None),
        Err(StoreError::Compacted { asked, oldest }) => (None, Some(too_old(asked, oldest))),
        Err(other) => return Err(Status::internal(&other.to_string())),
    };
    let media = call.accepted.media;
    let now = Instant::now();
    let ends_at = now + timeout;
    let bookmark_at = now + BOOKMARK_PERIOD.min(timeout.saturating_sub(LAST_BOOKMARK_LEAD));
    let stream = WatchStream {
        has_bookmarks: call.query.flag("allowWatchBookmarks"),
        changes: matches!(call.resource.source, KindSource::Custom(_))
            .then(|| call.backend.registry.changes()),
        view: call.view(),
        call,
        selection,
        watch,
        initial: start.sends_initial.then_some(InitialEvents { snapshot, prefix, after: String::new() }),
        marks_initial_end: start.marks_end,
        refused,
        ends_at,
        bookmark_at,
        alarm: Box::pin(tokio::time::sleep_until(ends_at.min(bookmark_at))),
        sent_at: now,
        sent: from,
        has_columns: false,
        waiting: VecDeque::new(),
    };
    let pieces = stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((piece, stream))
    });
    Ok(Answer::body(200, content_type(media), Body::stream(pieces)))
}

fn content_type(media: AnswerEncoding) -> &'static str {
    if media == AnswerEncoding::Protobuf { PROTOBUF_STREAM } else { "application/json" }
}

/// Responds to a watch from a revision that this history has not reached. Such a client has seen a different history
/// (the server was restored from an older copy), and the events of this one would mislead it, so it must list again.
fn refuse_future_revision(
    media: AnswerEncoding,
    asked: Revision,
    current: Revision,
    timeout: Duration,
) -> Answer {
    let refusal = Status::expired(format!("Too large resource version: {asked}, current: {current}"));
    let pieces = stream::once(async move {
        tokio::time::sleep(FUTURE_PATIENCE.min(timeout)).await;
        if timeout > FUTURE_PATIENCE { error_piece(media, &refusal) } else { Bytes::new() }
    });
    Answer::body(200, content_type(media), Body::stream(pieces))
}

fn too_old(asked: Revision, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {asked} ({oldest})"))
}

/// The reason a bookmark is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bookmark {
    Periodic,
    EndOfInitialEvents,
}

/// The existing objects that have not been sent yet.
struct InitialEvents {
    snapshot: Snapshot,
    prefix: Prefix,
    after: String,
}

/// An open watch.
struct WatchStream {
    call: AuthorizedRequest,
    /// How to show objects, if not as they are stored.
    view: Option<FormRenderer>,
    selection: RequestSelectors,
    watch: Option<Watch>,
    initial: Option<InitialEvents>,
    marks_initial_end: bool,
    refused: Option<Status>,
    has_bookmarks: bool,
    ends_at: Instant,
    bookmark_at: Instant,
    /// Fires at the end or at the next bookmark, whichever comes first.
    alarm: Pin<Box<Sleep>>,
    /// When the last events were handed to the connection.
    sent_at: Instant,
    /// The latest revision that the client is certain to know.
    sent: Revision,
    /// Whether the columns of a table have been sent.
    has_columns: bool,
    /// Events that have not been sent yet. A long backlog is written in several pieces.
    waiting: VecDeque<Arc<Event>>,
    /// Signals changes to the served resources, if the resource can be withdrawn.
    changes: Option<tokio::sync::watch::Receiver<u64>>,
}

impl WatchStream {
    /// Returns the next piece; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(initial) = self.initial.take() {
                if self.call.has_converter() {
                    match self.converted_initial_piece(initial).await {
                        Ok(piece) if piece.is_empty() => continue,
                        Ok(piece) => return Some(piece),
                        Err(status) => {
                            self.refused = Some(status);
                            continue;
                        }
                    }
                }
                let cost = self.cost(initial.snapshot.range(&initial.prefix, &initial.after).take(1));
                let queue = self.call.queue.clone();
                let piece = queue.run_when_permitted(cost, || self.initial_piece(initial)).await;
                if !piece.is_empty() {
                    return Some(piece);
                }
                tokio::task::yield_now().await;
                continue;
            }
            if let Some(status) = self.refused.take() {
                self.watch = None;
                return Some(error_piece(self.call.accepted.media, &status));
            }
            if !self.waiting.is_empty() {
                match self.next_piece().await {
                    Ok(piece) if piece.is_empty() => tokio::task::yield_now().await,
                    Ok(piece) => return Some(piece),
                    Err(status) => {
                        self.waiting.clear();
                        self.refused = Some(status);
                    }
                }
                continue;
            }
            let watch = self.watch.as_mut()?;
            tokio::select! {
                biased;
                () = &mut self.alarm => {
                    if Instant::now() >= self.ends_at {
                        return None;
                    }
                    if let Some(piece) = self.periodic_bookmark() {
                        return Some(piece);
                    }
                }
                events = gather_events(watch, self.sent_at) => {
                    let piece = match events {
                        Ok(events) => {
                            self.waiting.extend(events);
                            continue;
                        }
                        Err(StoreError::Compacted { asked, oldest }) => self.cut_off(asked, oldest),
                        Err(_) => return None,
                    };
                    if !piece.is_empty() {
                        return Some(piece);
                    }
                }
                () = registry_changed(&mut self.changes) => {
                    if self.is_withdrawn() {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns the next of the waiting events as one piece; empty if none matches the selection. A client that reads
    /// slowly holds no more than one such piece.
    async fn next_piece(&mut self) -> Result<Bytes, Status> {
        let (mut bytes, mut events) = (0, Vec::new());
        while bytes < PIECE_BYTES
            && let Some(event) = self.waiting.pop_front()
        {
            bytes += event.new.as_ref().or(event.old.as_ref()).map_or(0, |entry| entry.bytes.len());
            events.push(event);
        }
        let events = self.converted_events(events).await?;
        let states = events.iter().flat_map(|event| [&event.old, &event.new]).flatten();
        let (cost, queue) = (self.cost(states), self.call.queue.clone());
        Ok(queue.run_when_permitted(cost, || self.piece(&events)).await)
    }

    fn cut_off(&mut self, asked: Revision, oldest: Revision) -> Bytes {
        self.watch = None;
        error_piece(self.call.accepted.media, &too_old(asked, oldest))
    }

    /// Returns whether the resource is no longer served as before. If so, the stream ends and clients start over.
    fn is_withdrawn(&self) -> bool {
        let table = self.call.backend.registry.table();
        let resource = &self.call.resource;
        let row = table.get(&resource.group, &resource.version, &resource.plural);
        row.is_none_or(|row| converted::has_other_converter(resource, row))
    }

    /// Returns the cost of parsing these entries, as far as parsing is needed. A user may have a thousand watches,
    /// and parsing for each of them must not delay other users.
    fn cost<'a>(&self, entries: impl Iterator<Item = &'a Arc<Entry>>) -> RequestCost {
        let bytes = entries.map(|entry| self.parsed_bytes(entry)).sum();
        RequestCost { bytes, memory: bytes }
    }

    /// Returns how many bytes must be parsed to select or show an object; zero if it is sent as it is stored.
    fn parsed_bytes(&self, entry: &Entry) -> usize {
        let is_parsed = !self.sends_stored_bytes()
            || self.selection.has_fields()
            || !convert::is_current(&self.call.resource, entry);
        if is_parsed { entry.bytes.len() } else { 0 }
    }

    fn initial_piece(&mut self, mut initial: InitialEvents) -> Bytes {
        let mut piece = Vec::new();
        let mut parsed_bytes = 0;
        let snapshot = initial.snapshot.clone();
        let mut is_done = true;
        let (prefix, after) = (initial.prefix.clone(), std::mem::take(&mut initial.after));
        for entry in snapshot.range(&prefix, &after) {
            let next_bytes = self.parsed_bytes(entry);
            let is_apart = parsed_bytes > 0 && next_bytes >= EXPENSIVE_BYTES;
            if piece.len() >= PIECE_BYTES || parsed_bytes >= PIECE_WORK_MAX || is_apart {
                is_done = false;
                break;
            }
            parsed_bytes += next_bytes;
            entry.key.as_str().clone_into(&mut initial.after);
            if self.selection.matches(entry) {
                self.event_into(&mut piece, "ADDED", &EventObject::Current(entry));
            }
        }
        self.sent = snapshot.revision();
        if !is_done {
            self.initial = Some(initial);
        } else if self.marks_initial_end && self.has_bookmarks {
            self.bookmark_into(&mut piece, snapshot.revision(), Bookmark::EndOfInitialEvents);
        }
        piece.into()
    }

    /// Returns the events that match the selection, as one piece.
    fn piece(&mut self, events: &[Arc<Event>]) -> Bytes {
        let mut piece = Vec::with_capacity(self.expected_bytes(events));
        for event in events {
            let everything = self.selection.is_everything();
            let matches = |entry: &Arc<Entry>| everything || self.selection.matches(entry);
            let old = event.old.as_ref().filter(|entry| matches(entry));
            let new = event.new.as_ref().filter(|entry| matches(entry));
            match (old, new) {
                (None, Some(new)) => self.event_into(&mut piece, "ADDED", &EventObject::Current(new)),
                (Some(_), Some(new)) => self.event_into(&mut piece, "MODIFIED", &EventObject::Current(new)),
                (Some(old), None) => {
                    self.event_into(&mut piece, "DELETED", &EventObject::Last(old, event.revision));
                }
                (None, None) => {}
            }
            self.sent = event.revision;
        }
        self.sent_at = Instant::now();
        piece.into()
    }

    /// Returns the approximate size of the events in bytes. A piece keeps the memory reserved for it until the client
    /// has read it, so nothing is reserved for tables, which are small no matter how large the objects are.
    fn expected_bytes(&self, events: &[Arc<Event>]) -> usize {
        if !self.sends_stored_bytes() || !self.selection.is_everything() {
            return 0;
        }
        events.iter().map(|event| event.new.as_ref().map_or(256, |entry| entry.bytes.len() + 64)).sum()
    }

    /// Returns whether objects are sent as they are stored.
    fn sends_stored_bytes(&self) -> bool {
        let Representation { form, media, .. } = self.call.accepted;
        form == ObjectForm::Object && media != AnswerEncoding::Protobuf
    }

    fn event_into(&mut self, piece: &mut Vec<u8>, kind: &str, shown: &EventObject<'_>) {
        if !self.sends_stored_bytes() {
            return self.formed_event_into(piece, kind, shown.object(&self.call));
        }
        start_into(piece, kind);
        shown.bytes_into(&self.call, piece);
        piece.extend_from_slice(b"}\n");
    }

    /// Writes an event for an object that is not sent as it is stored.
    fn formed_event_into(&mut self, piece: &mut Vec<u8>, kind: &str, object: Value) {
        let accepted = self.call.accepted;
        if accepted.media == AnswerEncoding::Protobuf {
            let formed = if accepted.form == ObjectForm::Object { object } else { self.formed(&object) };
            return protobuf::event_into(piece, kind, &formed);
        }
        start_into(piece, kind);
        self.formed_into(piece, &object);
        piece.extend_from_slice(b"}\n");
    }

    fn formed(&mut self, object: &Value) -> Value {
        let mut bytes = Vec::new();
        self.formed_into(&mut bytes, object);
        serde_json::from_slice(&bytes).expect("our own JSON")
    }

    /// Writes the object in the requested form.
    fn formed_into(&mut self, piece: &mut Vec<u8>, object: &Value) {
        let is_first = !std::mem::replace(&mut self.has_columns, true);
        let now = self.call.backend.clock.now();
        let formed = self.view.as_ref().map(|view| view.event(object, now, is_first));
        match formed {
            Some(Ok(bytes)) => piece.extend_from_slice(&bytes),
            // The form was checked when the watch was opened.
            Some(Err(_)) | None => piece.extend_from_slice(object.to_string().as_bytes()),
        }
    }

    fn periodic_bookmark(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        let last = self.ends_at.checked_sub(LAST_BOOKMARK_LEAD).unwrap_or(self.ends_at);
        self.bookmark_at =
            if now < last { (now + BOOKMARK_PERIOD).min(last) } else { self.ends_at + BOOKMARK_PERIOD };
        self.alarm.as_mut().reset(self.ends_at.min(self.bookmark_at));
        if !self.has_bookmarks {
            return None;
        }
        let revision = self.watch.as_ref()?.progress().max(self.sent);
        let mut piece = Vec::new();
        self.bookmark_into(&mut piece, revision, Bookmark::Periodic);
        Some(piece.into())
    }

    fn bookmark_into(&mut self, piece: &mut Vec<u8>, revision: Revision, bookmark: Bookmark) {
        let resource = &self.call.resource;
        let mut object = json!({"kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": revision.to_string()}});
        if bookmark == Bookmark::EndOfInitialEvents {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.formed_event_into(piece, "BOOKMARK", object);
    }
}

/// Returns the next events. With many watchers, waits at least for the pause after `sent_at`. Dropping the future
/// loses nothing.
async fn gather_events(watch: &mut Watch, sent_at: Instant) -> Result<Vec<Arc<Event>>, StoreError> {
    if watch.companions() >= CROWD && sent_at.elapsed() < GATHER {
        tokio::time::sleep_until(sent_at + GATHER).await;
    }
    watch.next().await
}

/// Waits for the next change to the served resources; waits forever if they cannot change.
async fn registry_changed(changes: &mut Option<tokio::sync::watch::Receiver<u64>>) {
    match changes {
        // This fails only when the registry is gone, and the call keeps it alive.
        Some(changes) => drop(changes.changed().await),
        None => std::future::pending().await,
    }
}

/// The state of an object that an event shows.
enum EventObject<'a> {
    Current(&'a Arc<Entry>),
    /// The last state, at the revision of the deletion.
    Last(&'a Arc<Entry>, Revision),
}

impl EventObject<'_> {
    fn bytes_into(&self, call: &AuthorizedRequest, piece: &mut Vec<u8>) {
        match self {
            Self::Current(entry) => convert::bytes_into(&call.resource, entry, piece),
            Self::Last(entry, revision) if convert::is_current(&call.resource, entry) => {
                for part in entry.restamped(*revision) {
                    piece.extend_from_slice(&part);
                }
            }
            Self::Last(..) => {
                let object = self.object(call);
                piece.extend_from_slice(&encode::plain(&call.resource, &object));
            }
        }
    }

    fn object(&self, call: &AuthorizedRequest) -> Value {
        match self {
            Self::Current(entry) => convert::decode_in_version(&call.resource, entry),
            Self::Last(entry, revision) => {
                let mut object = convert::decode_in_version(&call.resource, entry);
                object["metadata"]["resourceVersion"] = revision.to_string().into();
                object
            }
        }
    }
}

fn start_into(piece: &mut Vec<u8>, kind: &str) {
    for part in [r#"{"type":""#, kind, r#"","object":"#] {
        piece.extend_from_slice(part.as_bytes());
    }
}

fn error_piece(media: AnswerEncoding, status: &Status) -> Bytes {
    let mut piece = Vec::new();
    if media == AnswerEncoding::Protobuf {
        protobuf::event_into(&mut piece, "ERROR", &status.to_json());
        return piece.into();
    }
    start_into(&mut piece, "ERROR");
    piece.extend_from_slice(status.to_text().as_bytes());
    piece.extend_from_slice(b"}\n");
    piece.into()
}
