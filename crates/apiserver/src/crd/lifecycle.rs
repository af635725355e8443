//! The life of a definition: names accepted or in conflict, established at once, and cleaned up before it goes.

use homeostat_core::Key;
use serde_json::Value;

use super::names::{Taken, merge_names};
use crate::backend::Backend;
use crate::kinds::apiextensions::custom_resource_definition::{
    CLEANUP_FINALIZER, CUSTOM_RESOURCE_DEFINITION,
};
use crate::object::conditions::set_condition;
use crate::object::{encode, meta};
use crate::rewrite::rewrite;
use crate::status::Status;

/// Why a definition is not established although its names are free.
const BUILT_IN_GROUP: &str =
    "the group has built-in kinds, which answer for all of it: choose a group of your own";

/// Accepts the names of a stored definition and establishes it, as the naming and establishing controllers do, but
/// before the write that made it is answered: the next request finds the kind served.
pub(crate) async fn establish(backend: &Backend, key: &Key) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.of_declared(&CUSTOM_RESOURCE_DEFINITION);
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
