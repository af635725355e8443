//! Tracks who owns what through creates, updates and all patches but apply.
//!
//! **Invariant:** tracking never refuses a write. What a write changes, it owns, and it takes it from others; what it
//! removes, nobody owns. An object whose managers were forgotten is not tracked until the next apply.

use serde_json::Value;

use super::compare::{Difference, compare, created};
use super::managers::{self, Entry, Operation};
use super::place::Place;
use super::{Manager, ResetFields, set, typed};
use crate::schema::Schema;

/// Sets `metadata.managedFields` of `new`, which is about to replace `live` (`None`: to be created).
///
/// `new` is the decoded and defaulted object, before the kind's own preparation: what the server fills in later
/// belongs to nobody.
pub fn track_update(
    schema: Option<&Schema>,
    live: Option<&Value>,
    new: &mut Value,
    manager: &Manager<'_>,
    reset: &ResetFields,
) {
    let root = Place::root(schema);
    let sent = managers::take(new);
    let mut entries = starting_entries(live, sent, !manager.subresource.is_empty());
    if entries.is_empty() {
        if live.is_none() {
            managers::put(new, vec![manager.entry(Operation::Update, created(new, root, reset))]);
        }
        return;
    }
    let difference = match live {
        Some(live) => compare(live, new, root).without(reset),
        None => Difference { changed: created(new, root, reset), ..Difference::default() },
    };
    for entry in &mut entries {
        typed::reconcile(&mut entry.fields, root);
    }
    release(&mut entries, &difference);
    own(&mut entries, difference, manager);
    managers::cap(&mut entries);
    managers::put(new, entries);
}

/// Takes from all managers what changed or went.
pub(super) fn release(entries: &mut Vec<Entry>, difference: &Difference) {
    for entry in entries.iter_mut() {
        set::subtract(&mut entry.fields, &difference.changed);
        set::subtract(&mut entry.fields, &difference.removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
}

/// Gives the manager what it changed. A manager that changed nothing keeps its time.
fn own(entries: &mut Vec<Entry>, difference: Difference, manager: &Manager<'_>) {
    if difference.changed.is_empty() {
        return;
    }
    let mut entry = manager.entry(Operation::Update, difference.changed);
    if let Some(at) = entries.iter().position(|old| old.is_same_manager(&entry)) {
        let mut fields = entries.swap_remove(at).fields;
        set::add(&mut fields, &entry.fields);
        entry.fields = fields;
    }
    entries.push(entry);
}

/// The managers before this write: what the client sent if it may and can be read, else what is stored.
fn starting_entries(live: Option<&Value>, sent: Option<Value>, is_subresource: bool) -> Vec<Entry> {
    let stored = live.and_then(managers::of);
    let entries = match sent {
        Some(list) if !is_subresource && stored == Some(&list) => return managers::stored(list),
        Some(list) if !is_subresource && managers::is_reset(&list) => return Vec::new(),
        Some(list) if !is_subresource => managers::sent(list),
        _ => None,
    };
    let entries = entries.filter(|entries| !entries.is_empty());
    entries.unwrap_or_else(|| stored.cloned().map(managers::stored).unwrap_or_default())
}

/// Restores the times of `live`'s managers in `new` if nothing else differs, so that the write can be skipped.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(Value::Array(old)), Some(Value::Array(now))) = (managers::of(live), managers::of(new)) else {
        return;
    };
    let is_same_but_time = |(old, now): (&Value, &Value)| match (old, now) {
        (Value::Object(old), Value::Object(now)) => {
            let differs = |name: &String| name != "time" && old.get(name) != now.get(name);
            !old.keys().chain(now.keys()).any(differs)
        }
        _ => false,
    };
    let is_time_alone = old.len() == now.len() && old != now && old.iter().zip(now).all(is_same_but_time);
    if is_time_alone && is_same_object(live, new) {
        let old = old.clone();
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("managedFields".to_owned(), Value::Array(old));
        }
    }
}

/// Are two states of an object equal, managedFields aside?
pub(super) fn is_same_object(left: &Value, right: &Value) -> bool {
    is_same_map(Some(left), Some(right), |name, left, right| match name {
        "metadata" => is_same_map(left, right, |name, left, right| name == "managedFields" || left == right),
        _ => left == right,
    })
}

fn is_same_map(
    left: Option<&Value>,
    right: Option<&Value>,
    is_same: impl Fn(&str, Option<&Value>, Option<&Value>) -> bool,
) -> bool {
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            left.keys().chain(right.keys()).all(|name| is_same(name, left.get(name), right.get(name)))
        }
        _ => left == right,
    }
}
