//! The operator deletes wanted objects no more often than it does without faults, and creates nothing twice. A crash
//! may repeat a write, but an additional deletion destroys something.

use std::collections::{BTreeMap, HashMap, HashSet};

use homeostat_core::Key;

use super::ReferenceRun;
use crate::alarm::Alarm;
use crate::engine::{Actor, RunRecord};
use crate::object_head::ObjectHead;
use crate::state::{generate_name_of, owner_uids_of, shown_key};

const DELETED: &str = "the operator decided to delete based on an old state: send the uid as a precondition, or read the \
                       object from the server before deleting";
const MADE: &str = "the operator decided to create based on an old cache: derive the name from the owner, so that the \
                    second creation is refused";

/// One deletion by the operator.
struct Deletion {
    /// How many steps the user had done before it.
    step: usize,
    /// Whether the name of the object was generated.
    is_generated: bool,
}

/// Counts by name what the operator created and deleted, and what others deleted. Objects whose generated names have
/// the same prefix are counted together.
#[derive(Default)]
pub(super) struct Counts {
    generated: BTreeMap<String, u32>,
    deleted: BTreeMap<String, Vec<Deletion>>,
    removed_by_others: BTreeMap<String, u32>,
    /// The value of `removed_by_others` when the last object was created. Later deletions cannot justify a creation.
    removed_before: BTreeMap<String, u32>,
    /// Objects with generated names, by the uid of their owner.
    owned: HashMap<String, Vec<(Key, String)>>,
    /// Objects whose owner was deleted by others. They count as removed from then on, and are not counted again when
    /// they are deleted.
    orphaned: HashSet<Key>,
}

impl Counts {
    /// Notes the owners of a new object with a generated name.
    fn note_owners(&mut self, key: &Key, name: &str, bytes: &[u8]) {
        for owner in owner_uids_of(bytes) {
            self.owned.entry(owner).or_default().push((key.clone(), name.to_owned()));
        }
    }

    /// Counts an object that others removed, and the objects that it owned: a new owner rightly creates those again.
    fn note_removal(&mut self, key: &Key, bytes: &[u8]) {
        if !self.orphaned.remove(key) {
            *self.removed_by_others.entry(name_of(bytes, key)).or_default() += 1;
        }
        let uid = ObjectHead::read(bytes).unwrap_or_default().uid;
        for (child, name) in self.owned.remove(&uid).unwrap_or_default() {
            if self.orphaned.insert(child) {
                *self.removed_by_others.entry(name).or_default() += 1;
            }
        }
    }
}

pub(super) fn judge(reference: &ReferenceRun, record: &RunRecord) -> Option<Alarm> {
    let (expected, actual) = (&reference.counts, count(record));
    for (name, deletions) in &actual.deleted {
        let justified = expected.deleted.get(name).map_or(0, Vec::len);
        // On a stale cache the operator may recreate something unwanted and delete it again. That destroys nothing.
        let is_wanted =
            |deletion: &Deletion| deletion.is_generated || is_there(reference, name, deletion.step);
        if deletions.len() > justified && deletions.iter().any(is_wanted) {
            let count = deletions.len();
            let text = format!(
                "the operator deletes {name} {count} time(s); without faults it does so {justified} time(s)"
            );
            return Some(Alarm::new("justified deletion", name, text).hint(DELETED));
        }
    }
    // The server refuses a second object of the same name; only generated names allow duplicates.
    for (name, count) in &actual.generated {
        let lost = actual.removed_before.get(name).copied().unwrap_or_default();
        let known = expected.removed_before.get(name).copied().unwrap_or_default();
        let justified =
            expected.generated.get(name).copied().unwrap_or_default() + lost.saturating_sub(known);
        if *count > justified {
            let text = format!(
                "the operator creates {name} {count} time(s); without faults it does so {justified} time(s)"
            );
            return Some(Alarm::new("justified creation", name, text).hint(MADE));
        }
    }
    None
}

/// Returns whether the undisturbed schedule has the object at rest after this many steps.
pub(super) fn is_there(reference: &ReferenceRun, name: &str, step: usize) -> bool {
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
                    counts.note_owners(&event.key, &name, &new.bytes);
                    *counts.generated.entry(name.clone()).or_default() += 1;
                    let removed = counts.removed_by_others.get(&name).copied().unwrap_or_default();
                    counts.removed_before.insert(name, removed);
                }
            }
            // A deletion that waits for finalizers counts from the request on.
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
            (Some(old), None) => counts.note_removal(&event.key, &old.bytes),
            _ => {}
        }
    }
    counts
}

fn is_marked(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\"deletionTimestamp\"").is_some()
}

/// Returns the name of an object that is the same in every schedule: a generated name becomes its prefix.
fn name_of(bytes: &[u8], key: &Key) -> String {
    match generate_name_of(bytes) {
        Some(prefix) if key.name().starts_with(&prefix) => {
            let key = Key::new(key.group(), key.resource(), key.namespace(), &format!("{prefix}*"));
            shown_key(&key)
        }
        _ => shown_key(key),
    }
}
