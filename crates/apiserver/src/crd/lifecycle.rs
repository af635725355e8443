//! The life of a definition: names accepted or in conflict, established at once, and cleaned up before it goes.

use serde_json::{Map, Value, json};

use crate::object::{encode, meta};
use homeostat_core::Prefix;
use homeostat_store::Snapshot;

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Accepts the names of a definition, or says which are taken, and establishes it: what the naming and establishing
/// controllers do, in the same write as the definition itself.
pub(crate) fn accept_names(definition: &mut Value, snapshot: &Snapshot, now: &str) {
    let taken = taken_names(definition, snapshot);
    let names = definition["spec"]["names"].clone();
    let mut accepted = definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let conflict = merge_names(&mut accepted, &names, &taken);
    accepted.entry("plural").or_insert("".into());
    accepted.entry("kind").or_insert("".into());
    definition["status"]["acceptedNames"] = Value::Object(accepted);
    let was_established = condition_is(definition, "Established", "True");
    match conflict {
        None => {
            set_condition(definition, ["NamesAccepted", "True", "NoConflicts", "no conflicts found"], now);
            let message = "the initial names have been accepted";
            set_condition(definition, ["Established", "True", "InitialNamesAccepted", message], now);
        }
        Some((reason, message)) => {
            set_condition(definition, ["NamesAccepted", "False", reason, &message], now);
            if !was_established {
                let message = "not all names are accepted";
                set_condition(definition, ["Established", "False", "NotAccepted", message], now);
            }
        }
    }
    store_versions(definition);
}

/// Adds the storage version to the versions ever stored.
fn store_versions(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let storage = versions.into_iter().find(|one| one["storage"] == true).map(|one| one["name"].clone());
    let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    if let Some(storage) = storage
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
    definition["status"]["storedVersions"] = Value::Array(stored);
}

/// Names of other definitions in the same group: (resources and short names, kinds).
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

fn taken_names(definition: &Value, snapshot: &Snapshot) -> Taken {
    let mut taken = Taken { resources: Vec::new(), kinds: Vec::new() };
    let prefix = Prefix::resource(super::GROUP, super::PLURAL);
    for entry in snapshot.range(&prefix, "") {
        if entry.key.name() == meta::name(definition) {
            continue;
        }
        let other = encode::decode(entry);
        if other["spec"]["group"] != definition["spec"]["group"] {
            continue;
        }
        let names = &other["status"]["acceptedNames"];
        let short = names["shortNames"].as_array().into_iter().flatten();
        let resources = short.chain([&names["plural"], &names["singular"]]);
        taken.resources.extend(resources.filter_map(Value::as_str).map(Into::into));
        taken.kinds.extend(
            [&names["kind"], &names["listKind"]].iter().filter_map(|one| one.as_str()).map(Into::into),
        );
    }
    taken
}

/// Takes over every free name; gives the last conflict found.
fn merge_names(
    accepted: &mut Map<String, Value>,
    names: &Value,
    taken: &Taken,
) -> Option<(&'static str, String)> {
    let mut conflict = None;
    let rules: [(&str, &'static str, &Vec<String>); 4] = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (field, reason, taken) in rules {
        let Some(name) = names[field].as_str() else { continue };
        if accepted.get(field).and_then(Value::as_str) != Some(name) && taken.iter().any(|one| one == name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            accepted.insert(field.into(), name.into());
        }
    }
    let short = names["shortNames"].as_array().cloned().unwrap_or_default();
    let clash =
        short.iter().filter_map(Value::as_str).find(|name| taken.resources.iter().any(|one| one == name));
    match clash {
        Some(name) => conflict = Some(("ShortNamesConflict", format!("{name:?} is already in use"))),
        None => put_list(accepted, "shortNames", short),
    }
    put_list(accepted, "categories", names["categories"].as_array().cloned().unwrap_or_default());
    conflict
}

fn put_list(map: &mut Map<String, Value>, field: &str, list: Vec<Value>) {
    if list.is_empty() {
        map.remove(field);
    } else {
        map.insert(field.into(), list.into());
    }
}

/// Marks a definition as terminating.
pub(crate) fn terminating(definition: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    set_condition(definition, ["Terminating", "True", "InstanceDeletionInProgress", message], now);
}

fn condition_is(definition: &Value, kind: &str, status: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == kind && one["status"] == status)
}

/// Sets a condition `[type, status, reason, message]`; the transition time moves only when the status does.
pub(crate) fn set_condition(object: &mut Value, [kind, status, reason, message]: [&str; 4], now: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let conditions = object["status"]["conditions"].as_array_mut().expect("made a list above");
    let fresh = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now});
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(old) if old["status"] == status => {
            old["reason"] = reason.into();
            old["message"] = message.into();
        }
        Some(old) => *old = fresh,
        None => conditions.push(fresh),
    }
}
