//! The state of a cluster without values that depend on time or randomness, so that two runs can be compared: no uids,
//! revisions, times and generated names, no Events and Leases.

use std::collections::BTreeMap;

use homeostat_core::canonical_state::{
    CanonicalState, IgnoredPaths, StateDifference, is_state, remove_history, remove_times, replace_names,
    shown_key, state_differences,
};
use homeostat_core::{Key, Revision};
use homeostat_store::Snapshot;
use serde_json::Value;

/// Returns a name for an object that is the same in every run: a generated name becomes its prefix and a `*`.
pub(super) fn repeatable_name(key: &Key, object: &Value) -> String {
    match object["metadata"]["generateName"].as_str() {
        Some(prefix) if key.name().starts_with(prefix) => {
            shown_key(&Key::new(key.group(), key.resource(), key.namespace(), &format!("{prefix}*")))
        }
        _ => shown_key(key),
    }
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
        remove_history(&mut object);
        replace_names(&mut object, &names);
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
    remove_times(&mut contents);
    let meta = contents["metadata"].take();
    format!("{contents}{}{}", meta["labels"], meta["annotations"])
}

/// Returns how two states differ. Paths in `ignored` do not count, nor those that a scenario ignores for all objects.
pub(super) fn differences(
    expected: &CanonicalState,
    actual: &CanonicalState,
    ignored: &IgnoredPaths,
    ignored_everywhere: &[String],
) -> Vec<StateDifference> {
    let mut found = state_differences(expected, actual, ignored);
    found.retain(|difference| !ignored_everywhere.iter().any(|prefix| is_below(&difference.path, prefix)));
    found
}

/// Returns whether a path equals the other one or is below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scenario_ignores_paths_of_all_objects() {
        let state = |tries: u32| {
            let object = json!({"status": {"tries": tries, "triesMax": tries}});
            CanonicalState::from([("x".to_owned(), object)])
        };
        let ignored = ["status.tries".to_owned()];
        let found = differences(&state(1), &state(2), &IgnoredPaths::new(), &ignored);
        let told: Vec<&str> = found.iter().map(|difference| &*difference.text).collect();
        assert_eq!(told, ["status.triesMax: expected 1, is 2"]);
    }
}
