//! Changes that arrive close together, gathered into one frame.
//!
//! **Invariant:** a batch never exceeds [`CHANGES_MAX`]: a full batch is flushed before more is read.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::Instant;

use super::StreamStart;
use crate::event_stream_frame::frame;
use crate::row::Row;

/// The maximum number of changes in a frame: what a page handles well within one screen refresh.
const CHANGES_MAX: usize = 500;

/// Changes waiting to be sent.
pub(super) struct ChangeBatch {
    changes: Vec<RowChange>,
    /// The position of each object's change. `None` for the past, where every change is sent.
    places: Option<HashMap<String, usize>>,
    since: Option<Instant>,
}

/// One change.
#[derive(Serialize)]
struct RowChange {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

#[derive(Serialize)]
struct ChangeFrame {
    at: i64,
    changes: Vec<RowChange>,
}

impl ChangeBatch {
    pub(super) fn new(start: StreamStart) -> Self {
        let places = (start == StreamStart::Now).then(HashMap::new);
        Self { changes: Vec::new(), places, since: None }
    }

    pub(super) fn set(&mut self, row: Row, now: Instant) {
        self.push(RowChange { row, gone: false }, now);
    }

    pub(super) fn gone(&mut self, row: Row, now: Instant) {
        self.push(RowChange { row, gone: true }, now);
    }

    fn push(&mut self, change: RowChange, now: Instant) {
        self.since.get_or_insert(now);
        if let Some(places) = &mut self.places {
            if let Some(place) = places.get(&change.row.u) {
                self.changes[*place] = change;
                return;
            }
            places.insert(change.row.u.clone(), self.changes.len());
        }
        self.changes.push(change);
    }

    pub(super) fn gathered_since(&self) -> Option<Instant> {
        self.since
    }

    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= CHANGES_MAX
    }

    /// Returns the frame, if there is anything to send, and starts a new batch.
    pub(super) fn flush(&mut self, at: i64) -> Option<Bytes> {
        self.since = None;
        if let Some(places) = &mut self.places {
            places.clear();
        }
        let changes = std::mem::take(&mut self.changes);
        (!changes.is_empty()).then(|| frame("changes", &ChangeFrame { at, changes }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::WatchedKind;

    fn row(uid: &str, revision: u64) -> Row {
        let kind = WatchedKind {
            group: String::new(),
            version: "v1".into(),
            resource: "configmaps".into(),
            kind: "ConfigMap".into(),
            is_namespaced: true,
        };
        Row::new(&kind, &json!({"metadata": {"uid": uid, "resourceVersion": revision.to_string()}}))
    }

    fn revisions(frame: &Bytes) -> Vec<u64> {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        data["changes"].as_array().unwrap().iter().map(|change| change["r"].as_u64().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_present_merges_changes_and_the_past_keeps_all() {
        for (start, expected) in [(StreamStart::Now, vec![3, 2]), (StreamStart::Past(1), vec![1, 2, 3])] {
            let mut batch = ChangeBatch::new(start);
            let now = Instant::now();
            for (uid, revision) in [("a", 1), ("b", 2), ("a", 3)] {
                batch.set(row(uid, revision), now);
            }
            assert_eq!(revisions(&batch.flush(0).unwrap()), expected);
            assert!(batch.flush(0).is_none());
        }
    }
}
