//! Tracks field ownership through creates, updates and all patches except apply.
//!
//! **Invariant:** tracking never rejects a write. A write owns the fields it changes and takes them from other
//! managers; removed fields have no owner. An object whose managers were removed is not tracked until the next apply.

use serde_json::Value;

use super::compare::{FieldDifference, compare, created};
use super::manager_entries::{self, ManagerEntry, ManagerOperation};
use super::schema_position::SchemaPosition;
use super::{FieldManager, ResetFields, field_set, owned_fields};
use crate::schema::Schema;

/// Sets `metadata.managedFields` of `new`, which is about to replace `live` (`None` to create it).
///
/// `new` is the decoded and defaulted object, before the kind's own preparation: fields that the server fills in later
/// have no owner.
pub fn track_update(
    schema: Option<&Schema>,
    live: Option<&Value>,
    new: &mut Value,
    manager: &FieldManager<'_>,
    reset: &ResetFields,
) {
    let root = SchemaPosition::root(schema);
    let sent = manager_entries::take(new);
    let mut entries = starting_entries(live, sent, !manager.subresource.is_empty());
    if entries.is_empty() {
        if live.is_none() {
            manager_entries::put(
                new,
                vec![manager.entry(ManagerOperation::Update, created(new, root, reset))],
            );
        }
        return;
    }
    let difference = match live {
        Some(live) => compare(live, new, root).without(reset),
        None => FieldDifference { changed: created(new, root, reset), ..FieldDifference::default() },
    };
    for entry in &mut entries {
        owned_fields::reconcile(&mut entry.fields, root);
    }
    release(&mut entries, &difference);
    own(&mut entries, difference, manager);
    manager_entries::cap(&mut entries);
    manager_entries::put(new, entries);
}

/// Removes changed and deleted fields from all managers.
pub(super) fn release(entries: &mut Vec<ManagerEntry>, difference: &FieldDifference) {
    for entry in entries.iter_mut() {
        field_set::subtract(&mut entry.fields, &difference.changed);
        field_set::subtract(&mut entry.fields, &difference.removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
}

/// Makes the manager the owner of the fields it changed. A manager that changed nothing keeps its time.
fn own(entries: &mut Vec<ManagerEntry>, difference: FieldDifference, manager: &FieldManager<'_>) {
    if difference.changed.is_empty() {
        return;
    }
    let mut entry = manager.entry(ManagerOperation::Update, difference.changed);
    if let Some(at) = entries.iter().position(|old| old.is_same_manager(&entry)) {
        let mut fields = entries.swap_remove(at).fields;
        field_set::add(&mut fields, &entry.fields);
        entry.fields = fields;
    }
    entries.push(entry);
}

/// Returns the managers before this write: those from the client if allowed and parseable, otherwise the stored ones.
fn starting_entries(live: Option<&Value>, sent: Option<Value>, is_subresource: bool) -> Vec<ManagerEntry> {
    let stored = live.and_then(manager_entries::managed_fields_of);
    let entries = match sent {
        Some(list) if !is_subresource && stored == Some(&list) => return manager_entries::stored(list),
        Some(list) if !is_subresource && manager_entries::is_reset(&list) => return Vec::new(),
        Some(list) if !is_subresource => manager_entries::sent(list),
        _ => None,
    };
    let entries = entries.filter(|entries| !entries.is_empty());
    entries.unwrap_or_else(|| stored.cloned().map(manager_entries::stored).unwrap_or_default())
}

/// Restores the times of `live`'s managers in `new` if nothing else differs, so that the write can be skipped.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(Value::Array(old)), Some(Value::Array(now))) =
        (manager_entries::managed_fields_of(live), manager_entries::managed_fields_of(new))
    else {
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

/// Returns whether two states of an object are equal, ignoring managedFields.
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
