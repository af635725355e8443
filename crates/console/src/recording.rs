//! A failing run of a simulation, drawn by the same page: `homeostat sim show`.
//!
//! The streams have the same frames as in a live console: Now shows the end of the run, Time begins with the state
//! before it and sends every change together with the lines of the timeline. There is no API behind it, and nothing
//! changes.
//!
//! **Invariant:** every stream needs the recording's own token. No value of a Secret leaves it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use homeostat_core::Key;
use homeostat_core::journal::Record;
use homeostat_core::recorded_run::{RecordedChange, RecordedLine, RecordedRun};
use serde_json::{Value, json};

use crate::api::Refusal;
use crate::console_source::{ApiAnswer, ApiRequest, ConsoleSource};
use crate::event_stream_frame::{ALIVE, frame};
use crate::field::milliseconds;
use crate::kinds::WatchedKind;
use crate::query::Query;
use crate::redact::redact;
use crate::row::Row;

/// How often a stream sends a keep-alive comment.
const ALIVE_AGAIN: Duration = Duration::from_secs(15);

/// A run that failed, and what was reported about it.
pub struct Recording {
    /// What failed: a test, or an operator.
    pub title: String,
    /// The report, for people.
    pub report: String,
    /// What happened.
    pub run: RecordedRun,
    /// The token of the page.
    pub token: String,
}

impl Recording {
    /// Returns the stream behind a page.
    pub(crate) fn open(&self, page: &str, query: &Query) -> Result<BoxStream<'static, Bytes>, Refusal> {
        let frames = match page {
            "now" => self.end_frames(),
            "past" => self.past_frames(),
            "object" => self.object_frames(query)?,
            _ => return Err(not_found("a recorded run has no such page")),
        };
        let alive = stream::unfold((), |()| async {
            tokio::time::sleep(ALIVE_AGAIN).await;
            Some((ALIVE, ()))
        });
        Ok(stream::iter(frames).chain(alive).boxed())
    }

    fn hello(&self) -> Bytes {
        let last = self.run.changes.iter().map(|change| change.at);
        let end = last.chain(self.run.lines.iter().map(|line| line.at)).max().unwrap_or_default();
        let recording = json!({"report": self.report, "start": self.start(), "omitted": self.run.omitted});
        frame(
            "hello",
            &json!({
                "user": "", "title": self.title, "now": self.start() + signed(end), "from": self.first_revision(),
                "operators": false, "recording": recording,
            }),
        )
    }

    /// Returns when the run began, in milliseconds since 1970, as far as its objects say when they were created.
    fn start(&self) -> i64 {
        let created = self.run.changes.iter().filter(|change| change.before.is_none());
        let starts = created.filter_map(|change| {
            let at = milliseconds(&change.object.as_ref()?["metadata"]["creationTimestamp"]);
            (at > 0).then_some(at - signed(change.at))
        });
        starts.max().unwrap_or_default().max(0)
    }

    fn first_revision(&self) -> u64 {
        self.run.changes.first().map_or(0, |change| change.revision.saturating_sub(1))
    }

    /// Returns the state at the end.
    fn end_frames(&self) -> Vec<Bytes> {
        let mut last: BTreeMap<&Key, &RecordedChange> = BTreeMap::new();
        last.extend(self.run.changes.iter().map(|change| (&change.key, change)));
        let rows = last.values().filter_map(|change| Some(row(change, change.object.as_ref()?)));
        self.state_frames(rows.collect())
    }

    /// Returns the state before the run, and everything that happened in it.
    fn past_frames(&self) -> Vec<Bytes> {
        let before = self.run.changes.iter().filter_map(|change| Some(row(change, change.before.as_ref()?)));
        let mut frames = self.state_frames(before.collect());
        let synced = frames.pop();
        frames.push(frame("changes", &json!({"at": 0, "changes": self.steps()})));
        frames.extend(synced);
        frames
    }

    fn state_frames(&self, rows: Vec<Value>) -> Vec<Bytes> {
        let mut frames = vec![self.hello(), frame("kinds", &self.kinds())];
        let mut by_kind: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in rows {
            by_kind.entry(row["k"].as_str().unwrap_or_default().to_owned()).or_default().push(row);
        }
        let list =
            |(kind, rows)| json!({"kind": kind, "ns": null, "first": true, "last": true, "rows": rows});
        frames.extend(by_kind.into_iter().map(|one| frame("list", &list(one))));
        frames.push(frame("synced", &json!({"at": 0})));
        frames
    }

    /// Returns the changes and the lines of the timeline in the order in which they happened.
    fn steps(&self) -> Vec<Value> {
        let start = self.start();
        let mut steps: Vec<(u64, Value)> = Vec::new();
        for change in &self.run.changes {
            // For a deleted object, the page shows its last row.
            let row_of = |object| row(change, object);
            let mut shown = change.object.as_ref().map_or_else(|| self.last_row(change), row_of);
            shown["at"] = json!(start + signed(change.at));
            shown["gone"] = json!(change.object.is_none());
            steps.push((change.at, shown));
        }
        let lines = self.run.lines.iter().enumerate();
        steps.extend(lines.map(|(number, line)| (line.at, note(number, line, start))));
        // The sort is stable: at the same time, a change comes before the line that reports it.
        steps.sort_by_key(|(at, _)| *at);
        let mut revision = self.first_revision();
        for (_, step) in &mut steps {
            revision = step["r"].as_u64().unwrap_or(revision);
            step["r"] = json!(revision);
        }
        steps.into_iter().map(|(_, step)| step).collect()
    }

    fn last_row(&self, gone: &RecordedChange) -> Value {
        let earlier = self.run.changes.iter().take_while(|change| change.revision < gone.revision);
        let of_object = earlier.filter(|change| change.key == gone.key);
        let last = of_object.filter_map(|change| change.object.as_ref()).last().or(gone.before.as_ref());
        row(gone, last.unwrap_or(&Value::Null))
    }

    fn kinds(&self) -> Vec<WatchedKind> {
        let mut seen = BTreeSet::new();
        let kinds = self.run.changes.iter().filter_map(|change| {
            let object = change.object.as_ref().or(change.before.as_ref())?;
            let kind = kind_of(&change.key, object);
            seen.insert(kind.id()).then_some(kind)
        });
        kinds.collect()
    }

    /// Returns every version of one object.
    fn object_frames(&self, query: &Query) -> Result<Vec<Bytes>, Refusal> {
        let part = |name: &str| query.get(name).unwrap_or_default();
        let is_meant = |change: &&RecordedChange| {
            let key = &change.key;
            let id = if key.group().is_empty() {
                key.resource().to_owned()
            } else {
                format!("{}/{}", key.group(), key.resource())
            };
            (id.as_str(), key.namespace(), key.name()) == (part("kind"), part("namespace"), part("name"))
        };
        let changes: Vec<&RecordedChange> = self.run.changes.iter().filter(is_meant).collect();
        let first = changes.first().ok_or_else(|| not_found("the run did not change such an object"))?;
        let shown =
            |change: &RecordedChange, object: &Value| redact(&kind_of(&change.key, object), object.clone());
        let before = first.before.as_ref().map(|object| shown(first, object));
        let current = changes.last().and_then(|last| Some(shown(last, last.object.as_ref()?)));
        let some = before.clone().or_else(|| first.object.clone()).unwrap_or_default();
        let head = json!({
            "current": current, "before": before, "kind": kind_of(&first.key, &some), "key": first.key,
        });
        let mut frames = vec![frame("object", &head)];
        let mut last = some;
        for change in changes {
            let at = self.start() + signed(change.at);
            last = change.object.as_ref().map_or(last, |object| shown(change, object));
            let gone = change.object.is_none();
            frames.push(frame("revision", &json!({"gone": gone, "at": at, "object": last})));
        }
        frames.push(frame("records", &json!([])));
        Ok(frames)
    }
}

/// A recording has no API behind it.
impl ConsoleSource for Recording {
    fn call(&self, _: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
        Box::pin(async { ApiAnswer::failure(404, "this is a recorded run; there is no server") })
    }

    fn records_about(&self, _: &Key) -> Vec<Record> {
        Vec::new()
    }
}

/// Returns the row of an object after a change.
fn row(change: &RecordedChange, object: &Value) -> Value {
    let kind = kind_of(&change.key, object);
    let mut row = Row::new(&kind, object);
    (row.r, row.by) = (change.revision, change.actor.clone());
    change.key.namespace().clone_into(&mut row.ns);
    change.key.name().clone_into(&mut row.n);
    if row.u.is_empty() {
        row.u = change.key.to_string();
    }
    serde_json::to_value(row).unwrap_or_default()
}

/// Returns a line of the timeline as a step without an object.
fn note(number: usize, line: &RecordedLine, start: i64) -> Value {
    let state = if line.is_fault { "bad" } else { "" };
    json!({
        "u": format!("line {number}"), "k": "", "ns": "", "n": "", "c": 0, "m": 0, "s": state, "by": line.actor,
        "at": start + signed(line.at), "note": line.text.trim(), "isDecisive": line.is_decisive,
    })
}

fn kind_of(key: &Key, object: &Value) -> WatchedKind {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    WatchedKind {
        group: key.group().to_owned(),
        version: version.rsplit('/').next().unwrap_or_default().to_owned(),
        resource: key.resource().to_owned(),
        kind: object["kind"].as_str().unwrap_or(key.resource()).to_owned(),
        is_namespaced: !key.namespace().is_empty(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn not_found(message: &str) -> Refusal {
    Refusal { code: 404, message: message.to_owned() }
}
