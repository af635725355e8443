//! Watch: a stream of events, first what is there if asked for, then what happens.
//!
//! Events that wait together are written as one piece, so a busy watch costs few writes; in a crowd of watchers a
//! piece follows the one before it only after a moment in which more can gather. A watcher that history has left
//! behind gets a 410 event and the end of the stream; nobody else notices.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use homeostat_core::{Prefix, Revision};
use homeostat_store::{Entry, Error as StoreError, Event, Snapshot, Watch};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::get::too_large;
use super::items::PIECE_WORK_MAX;
use super::select::Selection;
use super::{Answer, Call};
use crate::body::{Body, PIECE_BYTES};
use crate::convert;
use crate::field::{Error, Errors, Path};
use crate::heavy::{HEAVY_BYTES, Weight};
use crate::negotiate::{Form, Media, Representation};
use crate::object::encode;
use crate::protobuf;
use crate::resource::Source;
use crate::status::Status;
use crate::table::View;

/// The type of a stream of protobuf events.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// How often a bookmark is sent to a watch that allows them, as in Kubernetes.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// The last bookmark comes this long before the watch ends by its own timeout.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// The shortest time an unlimited watch is kept open; the longest is twice that. Kubernetes spreads reconnects so.
const UNLIMITED_S_MIN: u64 = 1800;
/// The longest time a watch can ask for: ten years, which is as good as for ever and can be added to any instant.
const TIMEOUT_S_MAX: u64 = 10 * 365 * 24 * 3600;
/// How long a watch from a revision that does not exist yet is left in silence before it is refused. Kubernetes waits
/// as long for its cache to become that fresh.
const FUTURE_PATIENCE: Duration = Duration::from_secs(3);
/// So many watches of one resource are a crowd: telling each of every event at once would cost more than the writes
/// they are told of. Fewer are told at once.
const CROWD: usize = 16;
/// How long events gather for a watch of a crowd that was told something just now: enough for a piece that fills a TLS
/// record under load, and less than anybody who reconciles notices.
const GATHER: Duration = Duration::from_millis(8);

/// Opens the stream.
pub(super) fn watch(call: Call) -> Result<Answer, Status> {
    if !call.resource.allows("watch") {
        return Err(Status::method_not_allowed());
    }
    let selection = Selection::of(&call)?;
    let start = Start::of(&call)?;
    let timeout = timeout(&call)?;
    let snapshot = call.backend.store.snapshot();
    if start.at_least > snapshot.revision() {
        return Err(too_large(start.at_least, snapshot.revision()));
    }
    let prefix = call.prefix();
    let from = start.from.unwrap_or_else(|| snapshot.revision());
    if from > snapshot.revision() {
        return Ok(from_the_future(call.accepted.media, (from, snapshot.revision()), timeout));
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
    let stream = Stream {
        has_bookmarks: call.query.flag("allowWatchBookmarks"),
        changes: matches!(call.resource.source, Source::Custom(_)).then(|| call.backend.registry.changes()),
        view: call.view(),
        call,
        selection,
        watch,
        initial: start.sends_initial.then_some(Initial { snapshot, prefix, after: String::new() }),
        marks_initial_end: start.marks_end,
        refused,
        ends_at,
        bookmark_at,
        alarm: Box::pin(tokio::time::sleep_until(ends_at.min(bookmark_at))),
        told_at: now,
        sent: from,
        has_columns: false,
    };
    let pieces = stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((piece, stream))
    });
    Ok(Answer::body(200, content_type(media), Body::stream(pieces)))
}

fn content_type(media: Media) -> &'static str {
    if media == Media::Protobuf { PROTOBUF_STREAM } else { "application/json" }
}

/// Where a watch starts.
struct Start {
    /// After this revision; `None`: after the snapshot that initial events show, or now.
    from: Option<Revision>,
    sends_initial: bool,
    marks_end: bool,
    /// The initial events show a state not older than this.
    at_least: Revision,
}

impl Start {
    fn of(call: &Call) -> Result<Self, Status> {
        let query = &call.query;
        let (revision, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
        let initial = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        check_options(initial, matching, query.get("continue"))?;
        let revision = match revision {
            "" => Revision::ZERO,
            text => text
                .parse::<Revision>()
                .map_err(|_| Status::unclassified(super::get::not_a_revision(text)))?,
        };
        let is_unset = revision == Revision::ZERO;
        let now = Self { from: None, sends_initial: false, marks_end: false, at_least: Revision::ZERO };
        Ok(match initial {
            Some(true) => Self { sends_initial: true, marks_end: true, at_least: revision, ..now },
            None if is_unset => Self { sends_initial: true, ..now },
            Some(false) if is_unset => now,
            _ => Self { from: Some(revision), ..now },
        })
    }
}

fn check_options(initial: Option<bool>, matching: &str, token: &str) -> Result<(), Status> {
    let root = Path::Root;
    let path = root.field("resourceVersionMatch");
    let mut errors = Errors::new();
    match initial {
        Some(_) if matching != "NotOlderThan" => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, detail));
        }
        None if !matching.is_empty() => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(Error::forbidden(&path, detail));
        }
        _ => {}
    }
    if initial.is_some() && !matching.is_empty() && matching != "NotOlderThan" {
        errors.push(Error::not_supported(&path, &json!(matching), &["NotOlderThan"]));
    }
    if !matching.is_empty() && !token.is_empty() {
        errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

fn timeout(call: &Call) -> Result<Duration, Status> {
    // A watch has no pages, but what is not a number is a mistake all the same.
    call.query.number("limit")?;
    let Some(seconds) = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds != 0) else {
        return Ok(Duration::from_secs(UNLIMITED_S_MIN + call.backend.entropy.below(UNLIMITED_S_MIN)));
    };
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default().min(TIMEOUT_S_MAX)))
}

/// The answer to a watch from a revision this history has not reached. Whoever holds one learned it from another
/// history (the server was restored from an older copy); no event of this one would mean to it what it says, so the
/// client is told to list again.
fn from_the_future(media: Media, (asked, current): (Revision, Revision), timeout: Duration) -> Answer {
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

/// The objects there are, still to be sent.
struct Initial {
    snapshot: Snapshot,
    prefix: Prefix,
    after: String,
}

/// An open watch.
struct Stream {
    call: Call,
    /// How to show objects, if not as they are.
    view: Option<View>,
    selection: Selection,
    watch: Option<Watch>,
    initial: Option<Initial>,
    marks_initial_end: bool,
    refused: Option<Status>,
    has_bookmarks: bool,
    ends_at: Instant,
    bookmark_at: Instant,
    /// Goes off at the end or at the next bookmark, whichever is first.
    alarm: Pin<Box<Sleep>>,
    /// When the last events were handed to the connection.
    told_at: Instant,
    /// The revision the client surely knows of.
    sent: Revision,
    /// Were the columns of a table sent already?
    has_columns: bool,
    /// Changes of what is served, if it can be withdrawn.
    changes: Option<tokio::sync::watch::Receiver<u64>>,
}

impl Stream {
    /// The next piece; `None`: the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(initial) = self.initial.take() {
                let weight = self.weight(initial.snapshot.range(&initial.prefix, &initial.after).take(1));
                let lane = self.call.lane.clone();
                let piece = lane.make(weight, || self.initial_piece(initial)).await;
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
                events = gathered(watch, self.told_at) => {
                    let piece = match events {
                        Ok(events) => {
                            let states = events.iter().flat_map(|event| [&event.old, &event.new]).flatten();
                            let (weight, lane) = (self.weight(states), self.call.lane.clone());
                            lane.make(weight, || self.piece(&events)).await
                        }
                        Err(StoreError::Compacted { asked, oldest }) => self.cut_off(asked, oldest),
                        Err(_) => return None,
                    };
                    if !piece.is_empty() {
                        return Some(piece);
                    }
                }
                () = changed(&mut self.changes) => {
                    if self.is_withdrawn() {
                        return None;
                    }
                }
            }
        }
    }

    fn cut_off(&mut self, asked: Revision, oldest: Revision) -> Bytes {
        self.watch = None;
        error_piece(self.call.accepted.media, &too_old(asked, oldest))
    }

    /// Is the resource no longer served as it was? Then the stream ends, and clients look again.
    fn is_withdrawn(&self) -> bool {
        let table = self.call.backend.registry.table();
        let resource = &self.call.resource;
        table.get(&resource.group, &resource.version, &resource.plural).is_none()
    }

    /// How much work it is to parse these, as far as that is needed. A user may have a thousand watches, and what is parsed
    /// for each of them must not keep others waiting.
    fn weight<'a>(&self, entries: impl Iterator<Item = &'a Arc<Entry>>) -> Weight {
        let bytes = entries.map(|entry| self.parsed_bytes(entry)).sum();
        Weight { bytes, memory: bytes }
    }

    /// The bytes that are parsed to select or show an object; none if it is sent as it is stored.
    fn parsed_bytes(&self, entry: &Entry) -> usize {
        let Representation { form, media, .. } = self.call.accepted;
        let is_parsed = form != Form::Object
            || media == Media::Protobuf
            || self.selection.has_fields()
            || !convert::is_current(&self.call.resource, entry);
        if is_parsed { entry.bytes.len() } else { 0 }
    }

    fn initial_piece(&mut self, mut initial: Initial) -> Bytes {
        let mut piece = Vec::new();
        let mut parsed_bytes = 0;
        let snapshot = initial.snapshot.clone();
        let mut is_done = true;
        let (prefix, after) = (initial.prefix.clone(), std::mem::take(&mut initial.after));
        for entry in snapshot.range(&prefix, &after) {
            let next_bytes = self.parsed_bytes(entry);
            let is_apart = parsed_bytes > 0 && next_bytes >= HEAVY_BYTES;
            if piece.len() >= PIECE_BYTES || parsed_bytes >= PIECE_WORK_MAX || is_apart {
                is_done = false;
                break;
            }
            parsed_bytes += next_bytes;
            entry.key.as_str().clone_into(&mut initial.after);
            if self.selection.matches(entry) {
                self.event_into(&mut piece, "ADDED", &Shown::Current(entry));
            }
        }
        self.sent = snapshot.revision();
        if !is_done {
            self.initial = Some(initial);
        } else if self.marks_initial_end && self.has_bookmarks {
            self.bookmark_into(&mut piece, snapshot.revision(), true);
        }
        piece.into()
    }

    /// The events that pass the selection, as one piece.
    fn piece(&mut self, events: &[Arc<Event>]) -> Bytes {
        let size =
            events.iter().map(|event| event.new.as_ref().map_or(256, |entry| entry.bytes.len() + 64)).sum();
        let mut piece = Vec::with_capacity(size);
        for event in events {
            let everything = self.selection.is_everything();
            let matches = |entry: &Arc<Entry>| everything || self.selection.matches(entry);
            let old = event.old.as_ref().filter(|entry| matches(entry));
            let new = event.new.as_ref().filter(|entry| matches(entry));
            match (old, new) {
                (None, Some(new)) => self.event_into(&mut piece, "ADDED", &Shown::Current(new)),
                (Some(_), Some(new)) => self.event_into(&mut piece, "MODIFIED", &Shown::Current(new)),
                (Some(old), None) => {
                    self.event_into(&mut piece, "DELETED", &Shown::Last(old, event.revision));
                }
                (None, None) => {}
            }
            self.sent = event.revision;
        }
        self.told_at = Instant::now();
        piece.into()
    }

    fn event_into(&mut self, piece: &mut Vec<u8>, kind: &str, shown: &Shown<'_>) {
        if self.call.accepted.form != Form::Object || self.call.accepted.media == Media::Protobuf {
            return self.formed_event_into(piece, kind, shown.object(&self.call));
        }
        start_into(piece, kind);
        shown.bytes_into(&self.call, piece);
        piece.extend_from_slice(b"}\n");
    }

    /// An event of an object that is not sent as it is stored.
    fn formed_event_into(&mut self, piece: &mut Vec<u8>, kind: &str, object: Value) {
        let accepted = self.call.accepted;
        if accepted.media == Media::Protobuf {
            let formed = if accepted.form == Form::Object { object } else { self.formed(&object) };
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

    /// The object in the form asked for.
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
        self.bookmark_into(&mut piece, revision, false);
        Some(piece.into())
    }

    fn bookmark_into(&mut self, piece: &mut Vec<u8>, revision: Revision, is_initial_end: bool) {
        let resource = &self.call.resource;
        let mut object = json!({"kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": revision.to_string()}});
        if is_initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.formed_event_into(piece, "BOOKMARK", object);
    }
}

/// The next events; in a crowd not before the moment after those told at `told_at` is over. Dropping the future loses
/// nothing.
async fn gathered(watch: &mut Watch, told_at: Instant) -> Result<Vec<Arc<Event>>, StoreError> {
    if watch.companions() >= CROWD && told_at.elapsed() < GATHER {
        tokio::time::sleep_until(told_at + GATHER).await;
    }
    watch.next().await
}

/// Waits for the next change of what is served; for ever if it cannot change.
async fn changed(changes: &mut Option<tokio::sync::watch::Receiver<u64>>) {
    match changes {
        // It fails only when the registry is gone, and the call holds it.
        Some(changes) => drop(changes.changed().await),
        None => std::future::pending().await,
    }
}

/// Which state of an object an event shows.
enum Shown<'a> {
    Current(&'a Arc<Entry>),
    /// The last state, at the revision that took it away.
    Last(&'a Arc<Entry>, Revision),
}

impl Shown<'_> {
    fn bytes_into(&self, call: &Call, piece: &mut Vec<u8>) {
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

    fn object(&self, call: &Call) -> Value {
        match self {
            Self::Current(entry) => convert::decode(&call.resource, entry),
            Self::Last(entry, revision) => {
                let mut object = convert::decode(&call.resource, entry);
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

fn error_piece(media: Media, status: &Status) -> Bytes {
    let mut piece = Vec::new();
    if media == Media::Protobuf {
        protobuf::event_into(&mut piece, "ERROR", &status.to_json());
        return piece.into();
    }
    start_into(&mut piece, "ERROR");
    piece.extend_from_slice(status.to_text().as_bytes());
    piece.extend_from_slice(b"}\n");
    piece.into()
}
