//! Turns a status change into a JSON patch: operations on our own entries only, preceded by tests of their assumptions.
//!
//! The server applies the patch completely or not at all. It refuses the patch if a test fails, which means that the
//! status is not what we assumed: the cache is behind, or its type omits something. The caller then reads the object
//! and computes the operations again. This module performs no I/O.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::change::{CONDITIONS, ConditionChange, EntryChange, FieldChange, Fields, StatusChange};
use crate::context::condition::whole_second;
use crate::context::json_requests::escaped;

/// The parts of an object that a status patch relies on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusBasis {
    pub(in crate::context) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    /// Null if there is none.
    pub(super) status: Value,
    /// Whether this is the whole object from the server rather than one from a cache, which may be behind and keeps
    /// only the fields that its type names.
    pub(super) is_whole: bool,
}

impl StatusBasis {
    /// Creates the basis from an object that the server just sent.
    pub(crate) fn whole(mut object: Value) -> Self {
        let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
        let (uid, resource_version) = (text("uid"), text("resourceVersion"));
        let status = object.get_mut("status").map(Value::take).unwrap_or_default();
        Self { uid, resource_version, status, is_whole: true }
    }
}

impl StatusChange {
    /// Returns the patch that makes this change to the object; empty if there is nothing to change.
    pub(in crate::context) fn operations(&self, snapshot: &StatusBasis, now: Timestamp) -> Vec<Value> {
        let mut patch = Patch { operations: Vec::new(), needs_version: false };
        if let Value::Object(status) = &snapshot.status {
            patch.fields("/status", status, &self.fields);
            patch.conditions(status.get(CONDITIONS), &self.conditions, now);
        } else {
            let mut status = build_object(&self.fields);
            let conditions = build_conditions(&self.conditions, now);
            if !conditions.is_empty() {
                status.insert(CONDITIONS.to_owned(), Value::Array(conditions));
            }
            if !status.is_empty() {
                patch.introduce("/status", &Value::Object(status));
            }
        }
        patch.finish(snapshot)
    }
}

/// An entry of a list and its position.
#[derive(Clone, Copy)]
struct Position<'a> {
    at: usize,
    item: &'a Value,
}

/// A patch under construction.
struct Patch {
    operations: Vec<Value>,
    /// Whether the patch is valid only for this version of the object.
    needs_version: bool,
}

impl Patch {
    fn test(&mut self, path: &str, value: &Value) {
        self.operations.push(json!({"op": "test", "path": path, "value": value}));
    }

    /// Sets or adds a value.
    fn add(&mut self, path: &str, value: &Value) {
        self.operations.push(json!({"op": "add", "path": path, "value": value}));
    }

    fn remove(&mut self, path: &str) {
        self.operations.push(json!({"op": "remove", "path": path}));
    }

    /// Adds a value, and tests that none has been added in the meantime.
    fn introduce(&mut self, path: &str, value: &Value) {
        self.test(path, &Value::Null);
        self.add(path, value);
    }

    fn fields(&mut self, path: &str, object: &Map<String, Value>, changes: &Fields) {
        for (name, change) in changes {
            self.field(&format!("{path}/{}", escaped(name)), object.get(name), change);
        }
    }

    fn field(&mut self, path: &str, current: Option<&Value>, change: &FieldChange) {
        let current = current.filter(|value| !value.is_null());
        match (change, current) {
            (FieldChange::Set(value), current) if current == Some(value) => {}
            (FieldChange::Set(value), _) => self.add(path, value),
            (FieldChange::SetIfAbsent(value), None) => self.introduce(path, value),
            (FieldChange::SetIfAbsent(_), Some(_)) | (FieldChange::Remove(_), None) => {}
            (FieldChange::Remove(was), Some(current)) => self.take_out(path, current, was),
            (FieldChange::Within(changes), Some(Value::Object(object))) => self.fields(path, object, changes),
            (FieldChange::Within(changes), current) => {
                let object = build_object(changes);
                match current {
                    _ if object.is_empty() => {}
                    None => self.introduce(path, &Value::Object(object)),
                    Some(_) => self.add(path, &Value::Object(object)),
                }
            }
        }
    }

    /// Removes a value; removes only the known members of an object, unless there are no others.
    fn take_out(&mut self, path: &str, current: &Value, was: &Value) {
        let (Value::Object(object), Value::Object(known)) = (current, was) else {
            self.remove(path);
            return;
        };
        if object.keys().all(|name| known.contains_key(name)) {
            self.test(path, current);
            self.remove(path);
            return;
        }
        for (name, was) in known {
            if let Some(current) = object.get(name) {
                self.take_out(&format!("{path}/{}", escaped(name)), current, was);
            }
        }
    }

    fn conditions(&mut self, list: Option<&Value>, changes: &[ConditionChange], now: Timestamp) {
        let Some(items) = list.filter(|list| !list.is_null()) else {
            let conditions = build_conditions(changes, now);
            if !conditions.is_empty() {
                self.introduce(&format!("/status/{CONDITIONS}"), &Value::Array(conditions));
            }
            return;
        };
        let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
        let place =
            |change: &ConditionChange| items.iter().position(|item| item["type"] == change.r#type.as_str());
        let (present, absent): (Vec<_>, Vec<_>) = changes.iter().partition(|change| place(change).is_some());
        let mut removed = Vec::new();
        for change in present {
            let Some(at) = place(change) else { continue };
            match &change.change {
                EntryChange::Set { fields, is_dated, .. } => {
                    self.entry(Position { at, item: &items[at] }, fields, *is_dated, now);
                }
                EntryChange::Remove => removed.push(at),
            }
        }
        // Entries are removed from last to first, so that no removal shifts an entry that has yet to be removed.
        removed.sort_unstable_by(|one, other| other.cmp(one));
        for at in removed {
            let path = format!("/status/{CONDITIONS}/{at}");
            self.test(&format!("{path}/type"), &items[at]["type"]);
            self.remove(&path);
        }
        for condition in build_conditions(absent, now) {
            // No test can express "no entry of this type": only the version shows that none has been added.
            self.needs_version = true;
            self.add(&format!("/status/{CONDITIONS}/-"), &condition);
        }
    }

    /// Changes fields of the condition at this position. Its other fields are unchanged.
    fn entry(
        &mut self,
        Position { at, item }: Position<'_>,
        fields: &Map<String, Value>,
        is_dated: bool,
        now: Timestamp,
    ) {
        let path = format!("/status/{CONDITIONS}/{at}");
        let differs = |(name, value): &(&String, &Value)| !is_same(item.get(*name), value);
        let mut changed: Vec<(&String, Value)> =
            fields.iter().filter(differs).map(|(name, value)| (name, value.clone())).collect();
        if changed.is_empty() {
            return;
        }
        let time = "lastTransitionTime".to_owned();
        if is_dated && fields.get("status") != item.get("status") {
            changed.push((&time, json!(whole_second(now))));
        }
        self.test(&format!("{path}/type"), &item["type"]);
        if is_dated {
            self.test(&format!("{path}/status"), &item["status"]);
        }
        for (name, value) in changed {
            let path = format!("{path}/{}", escaped(name));
            if value.is_null() { self.remove(&path) } else { self.add(&path, &value) }
        }
    }

    /// Returns the operations, preceded by the test that they apply to this object.
    fn finish(self, snapshot: &StatusBasis) -> Vec<Value> {
        if self.operations.is_empty() {
            return Vec::new();
        }
        let mut tests = Self { operations: Vec::new(), needs_version: false };
        tests.test("/metadata/uid", &json!(snapshot.uid));
        if self.needs_version {
            tests.test("/metadata/resourceVersion", &json!(snapshot.resource_version));
        }
        [tests.operations, self.operations].concat()
    }
}

/// Returns whether a condition's field has the same value. Go's types omit empty values.
fn is_same(current: Option<&Value>, value: &Value) -> bool {
    match current {
        None | Some(Value::Null) => value.is_null() || value == "",
        Some(current) => current == value,
    }
}

/// Returns the object that these changes create from nothing.
fn build_object(changes: &Fields) -> Map<String, Value> {
    let value = |(name, change): (&String, &FieldChange)| {
        let value = match change {
            FieldChange::Set(value) | FieldChange::SetIfAbsent(value) => value.clone(),
            FieldChange::Remove(_) => return None,
            FieldChange::Within(changes) => {
                let object = build_object(changes);
                if object.is_empty() {
                    return None;
                }
                Value::Object(object)
            }
        };
        Some((name.clone(), value))
    };
    changes.iter().filter_map(value).collect()
}

/// Returns the conditions that these changes add to a list that has none of them.
fn build_conditions<'a>(
    changes: impl IntoIterator<Item = &'a ConditionChange>,
    now: Timestamp,
) -> Vec<Value> {
    let condition = |change: &ConditionChange| {
        let EntryChange::Set { whole, is_dated, .. } = &change.change else { return None };
        let mut condition = whole.clone();
        condition.insert("type".to_owned(), json!(change.r#type));
        if *is_dated {
            condition.insert("lastTransitionTime".to_owned(), json!(whole_second(now)));
        }
        Some(Value::Object(condition))
    };
    changes.into_iter().filter_map(condition).collect()
}

#[cfg(test)]
mod tests;
