//! The operator deletes nothing that is wanted more often than it does when nothing goes wrong, and makes nothing twice. A
//! crash may repeat a write, but a deletion that the undisturbed schedule does not know destroys something.

use std::collections::BTreeMap;

use super::Reference;
use crate::alarm::Alarm;
use crate::engine::{Actor, RunRecord};
use crate::state::{generate_name_of, shown_key};

const DELETED: &str = "a decision to delete was made on an old state: check the uid (preconditions), or read the object from \
                       the server before deleting";
const MADE: &str = "a decision to create was made on an old cache: use a name derived from the owner, so that the second \
                    creation is refused";

/// One deletion by the operator.
struct Deletion {
    /// Steps of the user that were done before.
    step: usize,
    /// The name of the object was generated.
    is_generated: bool,
}

/// What the operator made and deleted, and others took away, by name; generated names count together.
#[derive(Default)]
pub(super) struct Counts {
    generated: BTreeMap<String, u32>,
    deleted: BTreeMap<String, Vec<Deletion>>,
    removed_by_others: BTreeMap<String, u32>,
    /// What others had taken away when the last one was made: only that can justify another.
    removed_before: BTreeMap<String, u32>,
}

pub(super) fn judge(reference: &Reference, record: &RunRecord) -> Option<Alarm> {
    let (expected, actual) = (&reference.counts, count(record));
    for (name, deletions) in &actual.deleted {
        let justified = expected.deleted.get(name).map_or(0, Vec::len);
        // A stale cache may make something again that is not wanted, and take it away again: that destroys nothing.
        let is_wanted =
            |deletion: &Deletion| deletion.is_generated || is_there(reference, name, deletion.step);
        if deletions.len() > justified && deletions.iter().any(is_wanted) {
            let count = deletions.len();
            let text =
                format!("the operator deletes {name} {count} time(s); undisturbed it does so {justified}");
            return Some(Alarm::new("justified deletion", name, text).hint(DELETED));
        }
    }
    // A second object of a given name is refused by the server; under names of chance there is no limit.
    for (name, count) in &actual.generated {
        let lost = actual.removed_before.get(name).copied().unwrap_or_default();
        let known = expected.removed_before.get(name).copied().unwrap_or_default();
        let justified =
            expected.generated.get(name).copied().unwrap_or_default() + lost.saturating_sub(known);
        if *count > justified {
            let text =
                format!("the operator makes {name} {count} time(s); undisturbed it does so {justified}");
            return Some(Alarm::new("justified creation", name, text).hint(MADE));
        }
    }
    None
}

/// Does the undisturbed schedule have the object at rest after so many steps?
pub(super) fn is_there(reference: &Reference, name: &str, step: usize) -> bool {
    let rest = reference.record.rests.iter().rev().find(|rest| rest.step == step);
    rest.is_some_and(|rest| rest.snapshot.iter().any(|entry| shown_key(&entry.key) == name))
}

pub(super) fn count(record: &RunRecord) -> Counts {
    let mut counts = Counts::default();
    for change in &record.changes {
        let event = &change.event;
        if matches!(event.key.resource(), "events" | "leases") {
            continue;
        }
        let is_by_operator = matches!(change.actor, Actor::Operator(_));
        match (&event.old, &event.new) {
            (None, Some(new)) if is_by_operator => {
                let name = name_of(&new.bytes, &event.key);
                if name.ends_with('*') {
                    *counts.generated.entry(name.clone()).or_default() += 1;
                    let removed = counts.removed_by_others.get(&name).copied().unwrap_or_default();
                    counts.removed_before.insert(name, removed);
                }
            }
            // A deletion that waits for finalizers counts when it is asked for.
            (Some(old), None) if is_by_operator && !is_marked(&old.bytes) => {
                let name = name_of(&old.bytes, &event.key);
                let deletion = Deletion { step: change.step, is_generated: name.ends_with('*') };
                counts.deleted.entry(name).or_default().push(deletion);
            }
            (Some(old), Some(new)) if is_by_operator && is_marked(&new.bytes) && !is_marked(&old.bytes) => {
                let name = name_of(&old.bytes, &event.key);
                let deletion = Deletion { step: change.step, is_generated: name.ends_with('*') };
                counts.deleted.entry(name).or_default().push(deletion);
            }
            (Some(old), None) => {
                *counts.removed_by_others.entry(name_of(&old.bytes, &event.key)).or_default() += 1;
            }
            _ => {}
        }
    }
    counts
}

fn is_marked(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\"deletionTimestamp\"").is_some()
}

/// An object as it is called in every schedule: generated names count together.
fn name_of(bytes: &[u8], key: &homeostat_core::Key) -> String {
    match generate_name_of(bytes) {
        Some(prefix) if key.name().starts_with(&prefix) => {
            let key =
                homeostat_core::Key::new(key.group(), key.resource(), key.namespace(), &format!("{prefix}*"));
            shown_key(&key)
        }
        _ => shown_key(key),
    }
}
