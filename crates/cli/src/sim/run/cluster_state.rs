//! The state of a cluster without values that depend on time or randomness, so that two runs can be compared: no uids,
//! revisions, times and generated names, no Events and Leases.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_core::{Key, Revision};
use homeostat_store::Snapshot;
use serde_json::{Value, json};

/// The prefix of the groups of custom objects in the store.
const CUSTOM: &str = "crd:";

/// Resources that are not state: notes for people, and leases.
const IGNORED: [&str; 2] = ["events", "leases"];

/// Objects that the server itself writes into every namespace, some time after its start.
const IN_EVERY_NAMESPACE: [(&str, &str); 2] =
    [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")];

/// Fields of metadata that depend on randomness or history.
const METADATA_IGNORED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// The longest value that a difference shows.
const VALUE_CHARS_MAX: usize = 80;

/// Objects by name, without values that depend on time or randomness.
pub(super) type CanonicalState = BTreeMap<String, Value>;

/// Paths at which undisturbed runs differ, by object.
pub(super) type IgnoredPaths = BTreeSet<(String, String)>;

/// Returns the resource as kubectl writes it: `pages.demo.dev`.
pub(super) fn resource_of(key: &Key) -> String {
    shown_resource(key.group().strip_prefix(CUSTOM).unwrap_or(key.group()), key.resource())
}

/// Returns a resource as kubectl writes it.
pub(super) fn shown_resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Returns a key as people read it: `configmaps default/home`.
pub(super) fn shown_key(key: &Key) -> String {
    let slash = if key.namespace().is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", resource_of(key), key.namespace(), key.name())
}

/// Returns the name of an object in every run: generated names become their prefix and a `*`.
pub(super) fn repeatable_name(key: &Key, object: &Value) -> String {
    match object["metadata"]["generateName"].as_str() {
        Some(prefix) if key.name().starts_with(prefix) => {
            shown_key(&Key::new(key.group(), key.resource(), key.namespace(), &format!("{prefix}*")))
        }
        _ => shown_key(key),
    }
}

/// Returns whether a resource holds state, rather than notes for people.
pub(super) fn is_state(key: &Key) -> bool {
    !IGNORED.contains(&key.resource()) && !IN_EVERY_NAMESPACE.contains(&(key.resource(), key.name()))
}

/// Returns the objects that were written after `born`.
pub(super) fn objects_after(snapshot: &Snapshot, born: Revision) -> Vec<(Key, Value)> {
    let entries = snapshot.iter().filter(|entry| entry.revision > born && is_state(&entry.key));
    entries
        .filter_map(|entry| Some((entry.key.clone(), serde_json::from_slice(&entry.bytes).ok()?)))
        .collect()
}

/// Returns the objects that were written after `born`, without values that depend on time or randomness.
pub(super) fn canonical_state(snapshot: &Snapshot, born: Revision) -> CanonicalState {
    let objects = objects_after(snapshot, born);
    let names = canonical_names(&objects);
    let mut state = CanonicalState::new();
    for (key, mut object) in objects {
        let name = names.get(key.name()).map_or(key.name(), |name| name);
        let key = Key::new(key.group(), key.resource(), key.namespace(), name);
        strip(&mut object);
        rename(&mut object, &names);
        state.insert(shown_key(&key), object);
    }
    state
}

/// Returns generated names and uids with their replacements: the prefix and a number in the order of their contents,
/// because the order of names is random.
fn canonical_names(objects: &[(Key, Value)]) -> BTreeMap<String, String> {
    let mut in_order: Vec<&(Key, Value)> = objects.iter().collect();
    in_order.sort_by_cached_key(|(key, object)| (contents_of(object), key.clone()));
    let mut names = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (key, object) in in_order {
        let meta = &object["metadata"];
        let mut name = key.name().to_owned();
        if let Some(prefix) = meta["generateName"].as_str().filter(|prefix| name.starts_with(*prefix)) {
            let count = counts.entry(format!("{} {prefix}", key.resource())).or_default();
            *count += 1;
            let numbered = format!("{prefix}*{count}");
            names.insert(std::mem::replace(&mut name, numbered.clone()), numbered);
        }
        if let Some(uid) = meta["uid"].as_str() {
            names.insert(uid.to_owned(), format!("<uid of {} {name}>", key.resource()));
        }
    }
    names
}

/// Returns the content of an object, without its name and fields that depend on its history.
fn contents_of(object: &Value) -> String {
    let mut contents = object.clone();
    strip_observed(&mut contents);
    let meta = contents["metadata"].take();
    format!("{contents}{}{}", meta["labels"], meta["annotations"])
}

fn strip(object: &mut Value) {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in METADATA_IGNORED {
            meta.remove(field);
        }
    }
    strip_observed(object);
}

/// Generations count edits, not states; times are not state either.
fn strip_observed(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("observedGeneration");
            fields.values_mut().for_each(strip_observed);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_observed),
        Value::String(text) if is_time(text) => "<time>".clone_into(text),
        _ => {}
    }
}

/// Returns whether the text is a time as Kubernetes and most languages write it: `2026-01-02T03:04:05Z`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (19..=35).contains(&bytes.len())
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(at, mark)| bytes[*at] == *mark)
        && matches!(bytes[10], b'T' | b' ')
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, names)),
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, names)),
        Value::String(text) => {
            if let Some(name) = names.get(text.as_str()) {
                text.clone_from(name);
            }
        }
        _ => {}
    }
}

/// A difference between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The object.
    pub(super) object: String,
    /// The difference, in words.
    pub(super) text: String,
}

/// Returns how two states differ. Paths in `ignored` do not count, nor those that a scenario ignores for all objects.
pub(super) fn differences(
    expected: &CanonicalState,
    actual: &CanonicalState,
    ignored: &IgnoredPaths,
    ignored_everywhere: &[String],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut push = |object: &String, text: String| found.push(Difference { object: object.clone(), text });
    for (object, wanted) in expected {
        let Some(is) = actual.get(object) else {
            push(object, "is missing".to_owned());
            continue;
        };
        for (path, text) in compare(wanted, is) {
            let is_ignored = ignored.contains(&(object.clone(), path.clone()))
                || ignored_everywhere.iter().any(|prefix| is_below(&path, prefix));
            if !is_ignored {
                push(object, text);
            }
        }
    }
    for object in actual.keys().filter(|object| !expected.contains_key(*object)) {
        push(object, "should not be there".to_owned());
    }
    found
}

/// Returns whether a path is the other one or leads further down from it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the paths at which two states of the same objects differ.
pub(super) fn differing_paths(one: &CanonicalState, other: &CanonicalState) -> IgnoredPaths {
    let both = one.iter().filter_map(|(object, value)| Some((object, value, other.get(object)?)));
    both.flat_map(|(object, one, other)| {
        compare(one, other).into_iter().map(|(path, _)| (object.clone(), path)).collect::<Vec<_>>()
    })
    .collect()
}

/// Returns how one version of an object differs from the one before, in words.
pub(super) fn change_in_words(old: &Value, new: &Value) -> String {
    let (mut old, mut new) = (old.clone(), new.clone());
    strip(&mut old);
    strip(&mut new);
    let texts = compare(&old, &new).into_iter().map(|(_, text)| text.replace("expected", "was"));
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns the paths at which two objects differ, and how.
fn compare(expected: &Value, actual: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    compare_at("", expected, actual, &mut found);
    found
}

fn compare_at(path: &str, expected: &Value, actual: &Value, found: &mut Vec<(String, String)>) {
    match (expected, actual) {
        (one, other) if is_empty(one) && is_empty(other) => {}
        // A missing object counts as empty, so that the paths of its fields are reported.
        (Value::Object(_), Value::Null) => compare_at(path, expected, &json!({}), found),
        (Value::Null, Value::Object(_)) => compare_at(path, &json!({}), actual, found),
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let (one, other) = (one.get(name), other.get(name));
                compare_at(&path, one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare_at(&format!("{path}[{at}]"), one, other, found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => {
            let text = format!("{path}: expected {}, is {}", brief(one), brief(other));
            found.push((path.to_owned(), text));
        }
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
    use super::*;

    #[track_caller]
    fn check(expected: Value, actual: Value, differences_expected: &[&str]) {
        let state = |mut object: Value| {
            strip(&mut object);
            CanonicalState::from([("x".to_owned(), object)])
        };
        let found =
            differences(&state(expected), &state(actual), &IgnoredPaths::new(), &["status.tries".to_owned()]);
        let told: Vec<&str> = found.iter().map(|difference| &*difference.text).collect();
        assert_eq!(told, differences_expected);
    }

    #[test]
    fn time_and_chance_make_no_difference_and_the_rest_does() {
        let meta = |uid: &str| json!({"metadata": {"uid": uid, "resourceVersion": uid, "generation": 3}});
        check(meta("1"), meta("2"), &[]);
        check(json!({"at": "2026-01-02T03:04:05Z"}), json!({"at": "2026-01-02T03:04:06.123456Z"}), &[]);
        check(json!({"a": 1}), json!({"a": 2}), &["a: expected 1, is 2"]);
        check(json!({"a": [1]}), json!({"a": [2]}), &["a[0]: expected 1, is 2"]);
        check(json!({"a": {}}), json!({}), &[]);
        check(json!({"status": {"tries": 1}}), json!({"status": {"tries": 2}}), &[]);
        check(json!({"status": {"triesMax": 1}}), json!({}), &["status.triesMax: expected 1, is nothing"]);
    }

    #[test]
    fn missing_and_surplus_objects_are_told() {
        let state = |names: &[&str]| -> CanonicalState {
            names.iter().map(|name| ((*name).to_owned(), json!({}))).collect()
        };
        let found = differences(&state(&["a", "b"]), &state(&["b", "c"]), &IgnoredPaths::new(), &[]);
        let told: Vec<_> = found.iter().map(|one| (&*one.object, &*one.text)).collect();
        assert_eq!(told, [("a", "is missing"), ("c", "should not be there")]);
    }
}
