//! The life of a definition: names accepted or in conflict, established at once, and cleaned up before it goes.

use homeostat_core::Key;
use serde_json::{Value, json};

use super::names::{Taken, merge_names};
use crate::backend::Backend;
use crate::object::{encode, meta};
use crate::rewrite::rewrite;
use crate::status::Status;

/// Why a definition is not established although its names are free.
const BUILT_IN_GROUP: &str =
    "the group has built-in kinds, which answer for all of it: choose a group of your own";

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
        let taken = Taken::of(definition, &table, &backend.store.snapshot());
        accept_names(definition, &taken, &backend.now_text());
    })
    .await
}

/// Names that were taken by a definition that is gone may be free now.
pub(crate) async fn reconsider_names(backend: &Backend) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&super::STORAGE.prefix(), "") {
        if condition_is(&encode::decode(entry), "NamesAccepted", "False") {
            establish(backend, &entry.key).await?;
        }
    }
    Ok(())
}

/// Accepts the names of a definition, or says which are taken. A definition that was established stays so when another
/// definition has a new name of it. In a group of built-in kinds none is established, whatever it was before.
fn accept_names(definition: &mut Value, taken: &Taken, now: &str) {
    let names = definition["spec"]["names"].clone();
    let before = definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let (accepted, conflict) = merge_names(&names, before, taken);
    definition["status"]["acceptedNames"] = Value::Object(accepted);
    let was_established = condition_is(definition, "Established", "True");
    let has_conflict = conflict.is_some();
    match conflict {
        None => {
            set_condition(definition, ["NamesAccepted", "True", "NoConflicts", "no conflicts found"], now);
        }
        Some((reason, message)) => {
            set_condition(definition, ["NamesAccepted", "False", reason, &message], now);
        }
    }
    let established = match (taken.is_built_in_group, has_conflict) {
        (_, true) if was_established && !taken.is_built_in_group => return,
        (_, true) => ["Established", "False", "NotAccepted", "not all names are accepted"],
        (true, false) => ["Established", "False", "BuiltInGroup", BUILT_IN_GROUP],
        (false, false) => {
            ["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"]
        }
    };
    set_condition(definition, established, now);
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
