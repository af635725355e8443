//! A row: the part of an object that the page shows in lists and trees. It is small, because there may be ten thousand.
//!
//! **Invariant:** a row never contains the object's data, only names, counts and words from its status.

use homeostat_core::Key;
use serde::Serialize;
use serde_json::Value;

use crate::field::{revision, seconds};
use crate::kinds::WatchedKind;
use crate::object_health::{StateSummary, judge_object};

/// The maximum length of a cause, in characters: enough for a sentence, and a bound on the size of a row.
const CAUSE_LETTERS_MAX: usize = 400;

/// One object in a list. The names are short because there are many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Uid.
    pub(crate) u: String,
    /// The kind's id: `apps/deployments`.
    pub(crate) k: String,
    /// Namespace; empty if it has none.
    pub(crate) ns: String,
    /// Name.
    pub(crate) n: String,
    /// The uids of its owners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) o: Vec<String>,
    /// Revision.
    pub(crate) r: u64,
    /// Created, in seconds since 1970.
    pub(crate) c: i64,
    /// The last write, in seconds since 1970, according to its field managers.
    pub(crate) m: i64,
    /// Who made the last write.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) by: String,
    /// `good`, `wait`, `bad`, or empty if its status says nothing.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) s: &'static str,
    /// Its status in a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) w: String,
    /// Why it is not good.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) x: String,
    /// When it got this status, in seconds since 1970; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) t: i64,
    /// When a Lease lapses unless renewed, in milliseconds since 1970.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) e: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Row {
    /// Describes an object of this kind.
    pub(crate) fn new(kind: &WatchedKind, object: &Value) -> Self {
        let meta = &object["metadata"];
        let (changed, by) = last_write(meta);
        let created = seconds(&meta["creationTimestamp"]);
        let StateSummary { state, words, cause, since, lapses } = judge_object(kind, object);
        Self {
            u: text(&meta["uid"]),
            k: kind.id(),
            ns: text(&meta["namespace"]),
            n: text(&meta["name"]),
            o: owners(meta),
            r: revision(meta),
            c: created,
            m: changed.max(created),
            by,
            s: state.name(),
            w: words,
            x: cause.chars().take(CAUSE_LETTERS_MAX).collect(),
            t: since,
            e: lapses,
        }
    }

    /// Returns the key of an object, in the journal's form.
    pub(crate) fn key(kind: &WatchedKind, namespace: &str, name: &str) -> Key {
        Key::new(&kind.group, &kind.resource, namespace, name)
    }
}

fn owners(meta: &Value) -> Vec<String> {
    let owners = meta["ownerReferences"].as_array().into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str().map(ToOwned::to_owned)).collect()
}

/// Returns when the object was last written and by whom, as far as its managed fields say.
fn last_write(meta: &Value) -> (i64, String) {
    let entries = meta["managedFields"].as_array().into_iter().flatten();
    let latest = entries.map(|entry| (seconds(&entry["time"]), entry)).max_by_key(|(at, _)| *at);
    let (at, by) = latest.map_or((0, String::new()), |(at, entry)| (at, text(&entry["manager"])));
    (at.max(seconds(&meta["deletionTimestamp"])), by)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
