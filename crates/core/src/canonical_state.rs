//! Extracts the part of an object that counts as state: the part that two runs of the same scenario must agree on,
//! without uids, revisions, times and counters. Both simulators compare clusters with it.
//!
//! This module works on single objects and on maps of them; the simulators decide which objects belong to a cluster and
//! how to treat generated names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::key::Key;
use crate::request_target::shown_resource;

/// The prefix of the groups of custom objects in the store.
pub const CUSTOM_GROUP_PREFIX: &str = "crd:";

/// Resources that are not state: events, which are notes for people, and leases.
const IGNORED_RESOURCES: [&str; 2] = ["events", "leases"];

/// Objects that the server itself writes into every namespace, some time after its start.
const IN_EVERY_NAMESPACE: [(&str, &str); 2] =
    [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")];

/// Metadata fields that depend on randomness or history.
const IGNORED_METADATA: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// The longest value that a difference shows.
const VALUE_CHARS_MAX: usize = 80;

/// Objects by name, without values that depend on time or randomness.
pub type CanonicalState = BTreeMap<String, Value>;

/// Paths to ignore, by object, because they differ even between undisturbed runs.
pub type IgnoredPaths = BTreeSet<(String, String)>;

/// One difference between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDifference {
    /// The object.
    pub object: String,
    /// The path of the field; empty if the whole object is missing or unexpected.
    pub path: String,
    /// The difference, in words.
    pub text: String,
}

/// Returns the resource of a key as kubectl writes it: `pages.demo.dev`.
pub fn resource_of_key(key: &Key) -> String {
    shown_resource(key.group().strip_prefix(CUSTOM_GROUP_PREFIX).unwrap_or(key.group()), key.resource())
}

/// Returns a key in readable form: `configmaps default/home`.
pub fn shown_key(key: &Key) -> String {
    let slash = if key.namespace().is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", resource_of_key(key), key.namespace(), key.name())
}

/// Returns whether the object of this key is state, rather than a note for people or one of the server's own objects.
pub fn is_state(key: &Key) -> bool {
    !IGNORED_RESOURCES.contains(&key.resource())
        && !IN_EVERY_NAMESPACE.contains(&(key.resource(), key.name()))
}

/// Removes from an object everything that depends on time, randomness or history.
pub fn remove_history(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in IGNORED_METADATA {
            metadata.remove(field);
        }
    }
    remove_times(object);
}

/// Removes observed generations, which count edits, and replaces times.
pub fn remove_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("observedGeneration");
            fields.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        Value::String(text) if is_time(text) => "<time>".clone_into(text),
        _ => {}
    }
}

/// Returns whether the string is a time as Kubernetes and most languages write it: `2026-01-02T03:04:05Z`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (19..=35).contains(&bytes.len())
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(at, mark)| bytes[*at] == *mark)
        && matches!(bytes[10], b'T' | b' ')
}

/// Replaces strings that equal one of these names with their placeholder.
pub fn replace_names(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_names(value, names)),
        Value::Array(items) => items.iter_mut().for_each(|value| replace_names(value, names)),
        Value::String(text) => {
            if let Some(name) = names.get(text.as_str()) {
                text.clone_from(name);
            }
        }
        _ => {}
    }
}

/// Returns how two states differ. Skips the paths in `ignored`.
pub fn state_differences(
    expected: &CanonicalState,
    actual: &CanonicalState,
    ignored: &IgnoredPaths,
) -> Vec<StateDifference> {
    let mut found = Vec::new();
    let mut push = |object: &String, path: String, text: String| {
        found.push(StateDifference { object: object.clone(), path, text });
    };
    for (object, wanted) in expected {
        let Some(is) = actual.get(object) else {
            push(object, String::new(), "is missing".to_owned());
            continue;
        };
        for (path, text) in field_differences(wanted, is) {
            if !ignored.contains(&(object.clone(), path.clone())) {
                push(object, path, text);
            }
        }
    }
    for object in actual.keys().filter(|object| !expected.contains_key(*object)) {
        push(object, String::new(), "should not be there".to_owned());
    }
    found
}

/// Returns the paths at which two states of the same objects differ.
pub fn differing_paths(one: &CanonicalState, other: &CanonicalState) -> IgnoredPaths {
    let mut found = IgnoredPaths::new();
    for (object, value) in one {
        if let Some(second) = other.get(object) {
            found
                .extend(field_differences(value, second).into_iter().map(|(path, _)| (object.clone(), path)));
        }
    }
    found
}

/// Returns how one version of an object differs from the previous one, in words.
pub fn change_in_words(mut old: Value, mut new: Value) -> String {
    remove_history(&mut old);
    remove_history(&mut new);
    let differences = field_differences(&old, &new).into_iter();
    differences.map(|(_, text)| text.replace("expected", "was")).collect::<Vec<_>>().join("; ")
}

/// Returns the paths at which two objects differ, and how.
fn field_differences(expected: &Value, actual: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    compare(expected, actual, "", &mut found);
    found
}

fn compare(expected: &Value, actual: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match (expected, actual) {
        // Nearly all values are equal, and equality is quick to check.
        (one, other) if one == other => {}
        (one, other) if is_empty(one) && is_empty(other) => {}
        (Value::Object(one), Value::Object(other)) => compare_fields(one, other, path, found),
        // A missing object counts as empty, so that the paths of its fields are reported.
        (Value::Object(one), Value::Null) => compare_fields(one, &Map::new(), path, found),
        (Value::Null, Value::Object(other)) => compare_fields(&Map::new(), other, path, found),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(one, other, &format!("{path}[{at}]"), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if is_keyed(one) && is_keyed(other) => {
            compare_keyed(one, other, path, found);
        }
        (one, other) => {
            let text = format!("{path}: expected {}, is {}", brief(one), brief(other));
            found.push((path.to_owned(), text));
        }
    }
}

fn compare_fields(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    path: &str,
    found: &mut Vec<(String, String)>,
) {
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let none = &Value::Null;
        compare(one.get(name).unwrap_or(none), other.get(name).unwrap_or(none), &path, found);
    }
}

/// Returns the key that distinguishes a list item: conditions have a type, containers and ports a name.
fn key_of_item(item: &Value) -> Option<&str> {
    item["type"].as_str().or_else(|| item["name"].as_str())
}

fn is_keyed(items: &[Value]) -> bool {
    items.iter().all(|item| key_of_item(item).is_some())
}

/// Compares lists of different length item by item, so that the missing item is reported rather than the whole list.
fn compare_keyed(one: &[Value], other: &[Value], path: &str, found: &mut Vec<(String, String)>) {
    let keys: BTreeSet<_> = one.iter().chain(other).filter_map(key_of_item).collect();
    let find =
        |items: &'_ [Value], key: &str| items.iter().find(|item| key_of_item(item) == Some(key)).cloned();
    for key in keys {
        let (first, second) = (find(one, key), find(other, key));
        compare(&first.unwrap_or_default(), &second.unwrap_or_default(), &format!("{path}[{key}]"), found);
    }
}

/// Returns whether a value means the same as an omitted field: a server may or may not fill such fields in.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

fn brief(value: &Value) -> String {
    if value.is_null() {
        return "nothing".to_owned();
    }
    let text = value.to_string();
    if text.chars().count() <= VALUE_CHARS_MAX {
        return text;
    }
    text.chars().take(VALUE_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(expected: Value, actual: Value, differences: &[&str]) {
        let state = |mut object: Value| {
            remove_history(&mut object);
            CanonicalState::from([("x".to_owned(), object)])
        };
        let found = state_differences(&state(expected), &state(actual), &IgnoredPaths::new());
        let told: Vec<&str> = found.iter().map(|difference| &*difference.text).collect();
        assert_eq!(told, differences);
    }

    #[test]
    fn time_and_chance_make_no_difference_and_the_rest_does() {
        let meta = |uid: &str| json!({"metadata": {"uid": uid, "resourceVersion": uid, "generation": 3}});
        check(meta("1"), meta("2"), &[]);
        check(json!({"at": "2026-01-02T03:04:05Z"}), json!({"at": "2026-01-02T03:04:06.123456Z"}), &[]);
        check(json!({"at": "2026-01-02 03:04:05+00:00"}), json!({"at": "2026-01-02T03:04:06Z"}), &[]);
        check(json!({"a": 1}), json!({"a": 2}), &["a: expected 1, is 2"]);
        check(json!({"a": [1]}), json!({"a": [2]}), &["a[0]: expected 1, is 2"]);
        check(json!({"a": {}}), json!({}), &[]);
        check(json!({"a": {"b": 1}}), json!({}), &["a.b: expected 1, is nothing"]);
        let one = json!([{"type": "A", "status": "True"}]);
        let two = json!([{"type": "A", "status": "True"}, {"type": "B"}]);
        check(json!({"all": two}), json!({"all": one}), &["all[B].type: expected \"B\", is nothing"]);
    }

    #[test]
    fn missing_and_surplus_objects_are_reported() {
        let state = |names: &[&str]| -> CanonicalState {
            names.iter().map(|name| ((*name).to_owned(), json!({}))).collect()
        };
        let found = state_differences(&state(&["a", "b"]), &state(&["b", "c"]), &IgnoredPaths::new());
        let told: Vec<_> = found.iter().map(|one| (&*one.object, &*one.text)).collect();
        assert_eq!(told, [("a", "is missing"), ("c", "should not be there")]);
    }
}
