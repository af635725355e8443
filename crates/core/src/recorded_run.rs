//! Represents a failing simulation run, as saved next to its report: every change to an object, and the lines of its
//! timeline. The simulators record it, and `homeostat sim show` displays it.
//!
//! **Invariant:** the size is bounded: anything that exceeds the limits is dropped from the end and counted. Values of
//! Secrets are never kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Key;

/// The maximum number of changes in a run: more than a person steps through.
const CHANGES_MAX: usize = 2000;
/// The maximum number of lines. Together with the changes they fit in the page's list.
const LINES_MAX: usize = 2000;
/// The maximum number of bytes in all objects: an editor can still open such a file.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Resources whose history is not needed: definitions are large, and the timeline already reports Events.
const LEFT_OUT: [&str; 2] = ["customresourcedefinitions", "events"];

/// The recorded part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedRun {
    /// What happened, in words, in the order in which it happened.
    pub lines: Vec<RecordedLine>,
    /// The changes to objects, oldest first.
    pub changes: Vec<RecordedChange>,
    /// The number of lines and changes that were left out.
    pub omitted: usize,
}

/// A line of the timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLine {
    /// Milliseconds since the run began.
    pub at: u64,
    /// Who did it.
    pub actor: String,
    /// What was done.
    pub text: String,
    /// Whether it is a fault, or follows from one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fault: bool,
    /// Whether it is the fault that made the difference.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_decisive: bool,
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedChange {
    /// Milliseconds since the run began.
    pub at: u64,
    /// Who made it.
    pub actor: String,
    /// The revision in the store.
    pub revision: u64,
    /// The object.
    pub key: Key,
    /// The object before its first change; `None` if it did not exist, and for later changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The object afterwards; `None` if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
}

impl RecordedRun {
    /// Returns whether nothing was recorded, which is the case in files from older versions and for failures that
    /// occurred before anything changed.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.changes.is_empty()
    }

    /// Converts a time to milliseconds, the unit of records.
    pub fn milliseconds(at: Duration) -> u64 {
        u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
    }

    /// Records the timeline. The decisive line is the last one for which `is_decisive` is set.
    pub fn set_lines(&mut self, lines: impl IntoIterator<Item = RecordedLine>) {
        self.lines = lines.into_iter().collect();
        let decisive = self.lines.iter().rposition(|line| line.is_decisive);
        for (at, line) in self.lines.iter_mut().enumerate() {
            line.is_decisive = Some(at) == decisive;
        }
        // The lines around the decisive one are the most informative.
        let first = decisive.unwrap_or_default().saturating_sub(LINES_MAX / 2);
        self.omitted += self.lines.len().saturating_sub(LINES_MAX);
        self.lines.drain(..first.min(self.lines.len().saturating_sub(LINES_MAX)));
        self.lines.truncate(LINES_MAX);
    }

    /// Records changes, oldest first; each has both versions.
    pub fn set_changes(&mut self, changes: impl IntoIterator<Item = RecordedChange>) {
        let mut bytes = 0;
        for mut change in changes {
            if LEFT_OUT.contains(&change.key.resource()) {
                continue;
            }
            if self.changes.iter().any(|known| known.key == change.key) {
                change.before = None;
            }
            for object in [&mut change.before, &mut change.object].into_iter().flatten() {
                remove_unshown(&change.key, object);
                bytes += object.to_string().len();
            }
            if bytes > BYTES_MAX || self.changes.len() >= CHANGES_MAX {
                self.omitted += 1;
            } else {
                self.changes.push(change);
            }
        }
    }
}

/// Removes the values of a Secret, and the managed fields, which are long and redundant: each change names its actor.
fn remove_unshown(key: &Key, object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    if !(key.group().is_empty() && key.resource() == "secrets") {
        return;
    }
    for field in ["data", "stringData"] {
        let values = object.get_mut(field).and_then(Value::as_object_mut);
        for value in values.into_iter().flat_map(|values| values.values_mut()) {
            *value = "".into();
        }
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(resource: &str, object: Value) -> RecordedChange {
        let key = Key::new("", resource, "default", "x");
        RecordedChange {
            at: 1,
            actor: "you".into(),
            revision: 7,
            key,
            before: Some(object.clone()),
            object: Some(object),
        }
    }

    #[test]
    fn no_value_of_a_secret_is_recorded() {
        let mut run = RecordedRun::default();
        let meta = json!({"managedFields": [1], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}});
        run.set_changes([change("secrets", json!({"metadata": meta, "data": {"password": "hunter2"}}))]);
        let text = serde_json::to_string(&run).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("managedFields"), "{text}");
        assert!(text.contains("password"), "{text}");
    }

    #[test]
    fn a_run_is_bounded_and_keeps_the_first_state_of_an_object_once() {
        let mut run = RecordedRun::default();
        run.set_changes((0..CHANGES_MAX + 5).map(|_| change("configmaps", json!({"data": {}}))));
        assert_eq!((run.changes.len(), run.omitted), (CHANGES_MAX, 5));
        assert_eq!(run.changes.iter().filter(|one| one.before.is_some()).count(), 1);
        let mut large = RecordedRun::default();
        large.set_changes((0..9).map(|_| change("configmaps", json!("x".repeat(BYTES_MAX / 4)))));
        assert!(large.changes.len() < 4 && large.omitted > 5, "{}", large.changes.len());
        let mut definitions = RecordedRun::default();
        definitions.set_changes([change("customresourcedefinitions", json!({}))]);
        assert!(definitions.is_empty());
    }

    #[test]
    fn the_decisive_line_is_the_last_one_and_stays() {
        let mut run = RecordedRun::default();
        let line =
            |at: u64| RecordedLine { at, is_decisive: at == 7 || at == 6000, ..RecordedLine::default() };
        run.set_lines((0..7000).map(line));
        let decisive: Vec<u64> = run.lines.iter().filter(|one| one.is_decisive).map(|one| one.at).collect();
        assert_eq!((decisive, run.lines.len(), run.omitted), (vec![6000], LINES_MAX, 5000));
    }
}
