//! The state of a cluster without what chance decides, so that two schedules can be compared: no uids, revisions, times and
//! generated names.

use std::collections::BTreeMap;

use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Event, Snapshot};
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::object::read_object;
use crate::object_head::ObjectHead;
use crate::resource_name::{CUSTOM, shown};

/// What begins the annotations, labels and conditions of a foreign writer.
pub(crate) const FOREIGN_MARK: &str = "sim.homeostat.dev/mark";

/// The user whom the operator acts as under its least rights, and the name of the role.
pub(crate) const LIMITED_USER: &str = "simulated-operator";

/// Resources that tell no state: notes for people, and who leads.
const IGNORED: [&str; 2] = ["events", "leases"];

/// The resource of definitions of kinds.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions";

/// Fields of metadata that chance or history decides.
const METADATA_IGNORED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// The condition in which the runtime reports that an object fails, and later that it does not any more.
const RECONCILED: &str = "Reconciled";

/// Objects by name, without what chance decides.
pub(crate) type CanonicalState = BTreeMap<String, Value>;

#[derive(Deserialize, Default)]
struct Identified {
    #[serde(default)]
    metadata: IdentifiedMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IdentifiedMeta {
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Generated {
    metadata: GeneratedMeta,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct GeneratedMeta {
    generate_name: Option<String>,
}

/// What the name of a stored object was generated from.
pub(crate) fn generate_name_of(bytes: &[u8]) -> Option<String> {
    // Few objects have one, and to read them whole takes long.
    memmem::find(bytes, b"\"generateName\"")?;
    serde_json::from_slice::<Generated>(bytes).ok()?.metadata.generate_name
}

/// The uid of a stored object.
pub(crate) fn uid_of(entry: &Entry) -> String {
    ObjectHead::read(&entry.bytes).unwrap_or_default().uid
}

/// The uids an answer shows: of the object, or of the items of the list.
pub(crate) fn uids_in(body: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Shown {
        #[serde(default)]
        items: Vec<Identified>,
    }
    // Only a list has no uid of its own.
    if let Some(head) = ObjectHead::read(body).filter(|head| !head.uid.is_empty()) {
        return vec![head.uid];
    }
    let Ok(shown) = serde_json::from_slice::<Shown>(body) else { return Vec::new() };
    shown.items.into_iter().map(|item| item.metadata.uid).filter(|uid| !uid.is_empty()).collect()
}

/// A key as people read it: `configmaps default/home`.
pub(crate) fn shown_key(key: &Key) -> String {
    let group = key.group().strip_prefix(CUSTOM).unwrap_or(key.group());
    let slash = if key.namespace().is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", shown(group, key.resource()), key.namespace(), key.name())
}

/// The path of a stored object that is shown like this.
pub(crate) fn path_of_shown(snapshot: &Snapshot, object: &str) -> Option<String> {
    let entry = snapshot.iter().find(|entry| shown_key(&entry.key) == object)?;
    let value: Value = serde_json::from_slice(&entry.bytes).ok()?;
    let version = value["apiVersion"].as_str()?;
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let key = &entry.key;
    let place =
        if key.namespace().is_empty() { String::new() } else { format!("/namespaces/{}", key.namespace()) };
    Some(format!("{root}/{version}{place}/{}/{}", key.resource(), key.name()))
}

/// The state from which all schedules of a simulation start.
#[derive(Clone, Copy)]
pub(crate) struct StartState<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// What a new cluster has was written up to here.
    pub(crate) born: Revision,
}

/// The objects written after a new cluster was born, without what chance decides.
pub(crate) fn canonical_state(snapshot: &Snapshot, start: StartState<'_>) -> CanonicalState {
    let entries = snapshot.iter().filter(|entry| entry.revision > start.born && is_state(&entry.key));
    let (definitions, entries): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.key.resource() == DEFINITIONS);
    let objects: Vec<(&Key, Value)> =
        entries.into_iter().filter_map(|entry| Some((&entry.key, read_object(&entry.bytes)?))).collect();
    let names = canonical_names(&objects);
    let mut state = CanonicalState::new();
    for (key, mut object) in objects {
        let name = names.get(key.name()).map_or(key.name(), |name| name);
        let key = Key::new(key.group(), key.resource(), key.namespace(), name);
        strip(&mut object);
        rename(&mut object, &names);
        state.insert(shown_key(&key), object);
    }
    let definitions =
        definitions.into_iter().map(|entry| (shown_key(&entry.key), definition_state(entry, start)));
    state.extend(definitions);
    state
}

/// Definitions are large, and next to no schedule changes one: what is as at the start is not read.
fn definition_state(entry: &Entry, start: StartState<'_>) -> Value {
    let read = |entry: &Entry| {
        let mut object = read_object(&entry.bytes).unwrap_or_default();
        strip(&mut object);
        object
    };
    let as_at_start = || Value::String("as at the start".to_owned());
    match start.snapshot.get(&entry.key) {
        Some(first) if first.revision == entry.revision => as_at_start(),
        Some(first) => Some(read(entry)).filter(|now| *now != read(first)).unwrap_or_else(as_at_start),
        None => read(entry),
    }
}

fn is_state(key: &Key) -> bool {
    !IGNORED.contains(&key.resource()) && key.name() != LIMITED_USER && key.name() != "kube-root-ca.crt"
}

/// Generated names and uids, with what stands for them: the prefix and a number in order of creation.
fn canonical_names(objects: &[(&Key, Value)]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (key, object) in objects {
        let meta = &object["metadata"];
        let prefix = meta["generateName"].as_str().filter(|prefix| key.name().starts_with(prefix));
        let name = match prefix {
            Some(prefix) => {
                let count = counts.entry(format!("{}{prefix}", key.resource())).or_default();
                *count += 1;
                let name = format!("{prefix}*{count}");
                names.insert(key.name().to_owned(), name.clone());
                name
            }
            None => key.name().to_owned(),
        };
        if let Some(uid) = meta["uid"].as_str() {
            names.insert(uid.to_owned(), format!("<uid of {} {name}>", key.resource()));
        }
    }
    names
}

/// Takes away what chance decides, in place.
fn strip(object: &mut Value) {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in METADATA_IGNORED {
            meta.remove(field);
        }
        for field in ["annotations", "labels"] {
            if let Some(marks) = meta.get_mut(field).and_then(Value::as_object_mut) {
                marks.retain(|name, _| !name.starts_with(FOREIGN_MARK));
            }
            if meta.get(field).is_some_and(|all| all.as_object().is_some_and(serde_json::Map::is_empty)) {
                meta.remove(field);
            }
        }
    }
    strip_observed(object);
    strip_reports(object);
}

/// What the runtime itself says of failures is no state: whether something still fails is judged by its journal.
fn strip_reports(object: &mut Value) {
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        let is_foreign =
            |one: &Value| one["type"].as_str().is_some_and(|name| name.starts_with(FOREIGN_MARK));
        conditions.retain(|one| one["type"] != RECONCILED && !is_foreign(one));
        if conditions.is_empty() {
            status.remove("conditions");
        }
    }
    if status.is_empty()
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
}

/// Generations count edits, not states; times are no states either.
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

/// `2026-01-02T03:04:05Z`, with or without fractions.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=32).contains(&bytes.len())
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[16] == b':'
        && bytes[..4].iter().all(u8::is_ascii_digit)
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

/// How one version of an object differs from the one before, in words.
pub(crate) fn change_in_words(old: &Entry, new: &Entry) -> String {
    let read = |entry: &Entry| {
        let mut object = read_object(&entry.bytes).unwrap_or_default();
        strip(&mut object);
        object
    };
    let mut paths = Vec::new();
    compare(&read(old), &read(new), "", &mut paths);
    let texts: Vec<String> = paths.into_iter().map(|(_, text)| text.replace("expected", "was")).collect();
    texts.join("; ")
}

/// A hash of one change, without what chance decides.
pub(crate) fn fingerprint(event: &Event) -> u64 {
    let Some(new) = &event.new else { return xxh3_64(event.key.as_str().as_bytes()) };
    let Some(mut object) = read_object(&new.bytes) else { return 0 };
    let prefix = object["metadata"]["generateName"].as_str().map(ToOwned::to_owned);
    strip(&mut object);
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
        if prefix.is_some() {
            meta.remove("name");
        }
    }
    xxh3_64(object.to_string().as_bytes())
        ^ xxh3_64(prefix.as_deref().unwrap_or(event.key.as_str()).as_bytes())
}

/// How two states differ, in words; empty when they do not. Paths in `ignored` do not count.
pub(crate) fn differences(
    expected: &CanonicalState,
    actual: &CanonicalState,
    ignored: &std::collections::BTreeSet<(String, String)>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, wanted) in expected {
        match actual.get(key) {
            None => found.push((key.clone(), "is missing".to_owned())),
            Some(is) => {
                let mut paths = Vec::new();
                compare(wanted, is, "", &mut paths);
                for (path, text) in paths {
                    if !ignored.contains(&(key.clone(), path.clone())) {
                        found.push((key.clone(), text));
                    }
                }
            }
        }
    }
    for key in actual.keys().filter(|key| !expected.contains_key(*key)) {
        found.push((key.clone(), "should not be there".to_owned()));
    }
    found
}

/// The paths at which two states of the same objects differ.
pub(crate) fn differing_paths(
    one: &CanonicalState,
    other: &CanonicalState,
) -> std::collections::BTreeSet<(String, String)> {
    let mut found = std::collections::BTreeSet::new();
    for (key, value) in one {
        if let Some(second) = other.get(key) {
            let mut paths = Vec::new();
            compare(value, second, "", &mut paths);
            found.extend(paths.into_iter().map(|(path, _)| (key.clone(), path)));
        }
    }
    found
}

fn compare(expected: &Value, actual: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match (expected, actual) {
        // Nearly everything is the same, and that is quickly seen.
        (one, other) if one == other => {}
        (one, other) if is_empty(one) && is_empty(other) => {}
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let none = &Value::Null;
                compare(one.get(name).unwrap_or(none), other.get(name).unwrap_or(none), &path, found);
            }
        }
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

/// What tells the items of a list apart: conditions have a type, containers and ports a name.
fn key_of(item: &Value) -> Option<&str> {
    item["type"].as_str().or_else(|| item["name"].as_str())
}

fn is_keyed(items: &[Value]) -> bool {
    items.iter().all(|item| key_of(item).is_some())
}

/// Compares lists of different length item by item, so that what is missing is told and not the whole list.
fn compare_keyed(one: &[Value], other: &[Value], path: &str, found: &mut Vec<(String, String)>) {
    let keys: std::collections::BTreeSet<_> = one.iter().chain(other).filter_map(key_of).collect();
    let find = |items: &'_ [Value], key: &str| items.iter().find(|item| key_of(item) == Some(key)).cloned();
    for key in keys {
        let (first, second) = (find(one, key), find(other, key));
        let path = format!("{path}[{key}]");
        compare(&first.unwrap_or_default(), &second.unwrap_or_default(), &path, found);
    }
}

/// Is it what a field that is left out means? A server fills such fields in, or does not.
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
    if text.chars().count() <= 80 { text } else { text.chars().take(77).chain("…".chars()).collect() }
}
