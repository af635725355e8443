//! The life of a definition: names accepted or in conflict, established at once, and cleaned up before it goes.

use homeostat_core::{Key, Prefix};
use homeostat_store::Snapshot;
use serde_json::{Map, Value, json};

use crate::backend::Backend;
use crate::object::{encode, meta};
use crate::rewrite::rewrite;
use crate::status::Status;

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Accepts the names of a stored definition and establishes it, as the naming and establishing controllers do, but
/// before the write that made it is answered: the next request finds the kind served.
pub(crate) async fn establish(backend: &Backend, key: &Key) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.get(super::GROUP, "v1", super::PLURAL).expect("a built-in kind");
    rewrite(backend, resource, key, |definition| {
        if meta::is_deleting(definition) {
            return;
        }
        accept_names(definition, &backend.store.snapshot(), &backend.now_text());
    })
    .await
}

/// Names that were taken by a definition that is gone may be free now.
pub(crate) async fn reconsider_names(backend: &Backend) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&Prefix::resource(super::GROUP, super::PLURAL), "") {
        if condition_is(&encode::decode(entry), "NamesAccepted", "False") {
            establish(backend, &entry.key).await?;
        }
    }
    Ok(())
}

/// Accepts the names of a definition, or says which are taken.
fn accept_names(definition: &mut Value, snapshot: &Snapshot, now: &str) {
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
}

/// Names of other definitions in the same group: (resources and short names, kinds).
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

fn taken_names(definition: &Value, snapshot: &Snapshot) -> Taken {
    let mut taken = Taken { resources: Vec::new(), kinds: Vec::new() };
    let prefix = Prefix::resource(super::GROUP, super::PLURAL);
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    for entry in snapshot.range(&prefix, "") {
        // A definition is named after its plural and its group, so most need not be read.
        let is_of_group = entry.key.name().split_once('.').is_some_and(|(_, of)| of == group);
        if !is_of_group || entry.key.name() == meta::name(definition) {
            continue;
        }
        let other = encode::decode(entry);
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
    let mut take = |field: &str, reason: &'static str, taken: &[String]| {
        let name = names[field].as_str()?;
        if accepted.get(field).and_then(Value::as_str) != Some(name) && taken.iter().any(|one| one == name) {
            return Some((reason, format!("{name:?} is already in use")));
        }
        accepted.insert(field.into(), name.into());
        None
    };
    // Kubernetes reports the last one it finds, in this order.
    let plural = take("plural", "PluralConflict", &taken.resources);
    let singular = take("singular", "SingularConflict", &taken.resources);
    let kind = take("kind", "KindConflict", &taken.kinds);
    let list_kind = take("listKind", "ListKindConflict", &taken.kinds);
    conflict = plural.or(conflict);
    conflict = singular.or(conflict);
    let short = names["shortNames"].as_array().cloned().unwrap_or_default();
    let clash =
        short.iter().filter_map(Value::as_str).find(|name| taken.resources.iter().any(|one| one == name));
    match clash {
        Some(name) => conflict = Some(("ShortNamesConflict", format!("{name:?} is already in use"))),
        None => put_list(accepted, "shortNames", short),
    }
    conflict = kind.or(conflict);
    conflict = list_kind.or(conflict);
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

/// Marks a definition for deletion, and keeps it until its objects are gone.
pub(crate) fn mark_deleted(definition: &mut Value, now: &str) {
    meta::set(definition, "deletionTimestamp", Some(now.into()));
    if !meta::has_finalizer(definition, CLEANUP_FINALIZER) {
        let others = meta::finalizers(definition).map(Into::into);
        let finalizers = others.chain([CLEANUP_FINALIZER.into()]).collect();
        meta::set_finalizers(definition, finalizers);
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, ["Terminating", "True", "InstanceDeletionPending", message], now);
}

/// Says that the objects of a definition are being deleted.
pub(crate) fn mark_emptying(definition: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    set_condition(definition, ["Terminating", "True", "InstanceDeletionInProgress", message], now);
}

/// Says that no object of a definition is left, and no longer keeps it.
pub(crate) fn mark_emptied(definition: &mut Value, now: &str) {
    let message = "removed all instances";
    set_condition(definition, ["Terminating", "False", "InstanceDeletionCompleted", message], now);
    let others =
        meta::finalizers(definition).filter(|one| *one != CLEANUP_FINALIZER).map(Into::into).collect();
    meta::set_finalizers(definition, others);
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
