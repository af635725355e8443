//! The state of a cluster without values that depend on time or randomness, so that two schedules can be compared: no
//! uids, revisions, times and generated names.

use std::collections::BTreeMap;

use homeostat_core::canonical_state::{self, remove_history, replace_names};
pub(crate) use homeostat_core::canonical_state::{CanonicalState, differing_paths, shown_key};
use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Event, Snapshot};
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::object::read_object;
use crate::object_head::ObjectHead;

/// The prefix of the annotations, labels and conditions of the foreign writer.
pub(crate) const FOREIGN_MARK: &str = "sim.homeostat.dev/mark";

/// The name of the role with the operator's least privileges, and of the user with that role.
pub(crate) const LIMITED_USER: &str = "simulated-operator";

/// The resource of custom resource definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions";

/// The condition in which the runtime reports whether reconciling an object fails.
const RECONCILED: &str = "Reconciled";

#[derive(Deserialize, Default)]
struct ObjectWithUid {
    #[serde(default)]
    metadata: UidMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UidMetadata {
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectWithGenerateName {
    metadata: GenerateNameMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct GenerateNameMetadata {
    generate_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectWithOwners {
    metadata: OwnersMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct OwnersMetadata {
    owner_references: Vec<UidMetadata>,
}

/// Returns the `generateName` of a stored object.
pub(crate) fn generate_name_of(bytes: &[u8]) -> Option<String> {
    // Few objects have one, and parsing an object completely takes long.
    memmem::find(bytes, b"\"generateName\"")?;
    serde_json::from_slice::<ObjectWithGenerateName>(bytes).ok()?.metadata.generate_name
}

/// Returns the uids of the owners of a stored object.
pub(crate) fn owner_uids_of(bytes: &[u8]) -> Vec<String> {
    serde_json::from_slice::<ObjectWithOwners>(bytes)
        .map(|owned| owned.metadata.owner_references.into_iter().map(|owner| owner.uid).collect())
        .unwrap_or_default()
}

/// Returns the uid of a stored object.
pub(crate) fn uid_of(entry: &Entry) -> String {
    ObjectHead::read(&entry.bytes).unwrap_or_default().uid
}

/// Returns the uids in an answer: of the object, or of the items of a list.
pub(crate) fn uids_in(body: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Shown {
        #[serde(default)]
        items: Vec<ObjectWithUid>,
    }
    // Only a list has no uid of its own.
    if let Some(head) = ObjectHead::read(body).filter(|head| !head.uid.is_empty()) {
        return vec![head.uid];
    }
    let Ok(shown) = serde_json::from_slice::<Shown>(body) else { return Vec::new() };
    shown.items.into_iter().map(|item| item.metadata.uid).filter(|uid| !uid.is_empty()).collect()
}

/// Returns the API path of the stored object with this shown key.
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
    /// The revision up to which a new cluster writes its own objects.
    pub(crate) born: Revision,
}

/// Returns the objects written since the cluster was new, without values that depend on time or randomness.
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
        replace_names(&mut object, &names);
        state.insert(shown_key(&key), object);
    }
    let definitions =
        definitions.into_iter().map(|entry| (shown_key(&entry.key), definition_state(entry, start)));
    state.extend(definitions);
    state
}

/// Returns the state of a definition. Definitions are large and rarely change, so those that are unchanged are not
/// parsed.
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
    canonical_state::is_state(key) && key.name() != LIMITED_USER
}

/// Returns generated names and uids with their replacements: the prefix and a number in the order of the keys.
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

/// Removes what depends on time or randomness, and what the simulator itself wrote.
fn strip(object: &mut Value) {
    remove_history(object);
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in ["annotations", "labels"] {
            if let Some(marks) = meta.get_mut(field).and_then(Value::as_object_mut) {
                marks.retain(|name, _| !name.starts_with(FOREIGN_MARK));
            }
            if meta.get(field).is_some_and(|all| all.as_object().is_some_and(serde_json::Map::is_empty)) {
                meta.remove(field);
            }
        }
    }
    strip_reports(object);
}

/// Removes what the runtime reports about failures: whether something still fails is judged by its journal.
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

/// Returns how one version of an object differs from the one before, in words.
pub(crate) fn change_in_words(old: &Entry, new: &Entry) -> String {
    let read = |entry: &Entry| {
        let mut object = read_object(&entry.bytes).unwrap_or_default();
        strip(&mut object);
        object
    };
    canonical_state::change_in_words(read(old), read(new))
}

/// Returns a hash of one change, without values that depend on time or randomness.
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
