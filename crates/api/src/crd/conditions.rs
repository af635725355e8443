//! The status of a definition reports whether its names are accepted, whether it is established, and whether its
//! objects are being deleted.

use serde_json::Value;

use super::names::{TakenNames, merge_names};
use crate::kinds::apiextensions::custom_resource_definition::CLEANUP_FINALIZER;
use crate::object::conditions::set_condition;
use crate::object::meta;

/// The reason a definition is not established although its names are free.
const BUILT_IN_GROUP: &str =
    "the group has built-in kinds, which answer for all of it: choose a group of your own";

/// Accepts the names of a definition, or reports which ones are taken. An established definition stays established when
/// another definition already has one of its new names. No definition is established in a group of built-in kinds, even
/// if it was before.
pub fn accept_names(definition: &mut Value, taken: &TakenNames, now: &str) {
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

/// Records in the status that the objects of a definition are being deleted.
pub fn mark_emptying(definition: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    set_condition(definition, ["Terminating", "True", "InstanceDeletionInProgress", message], now);
}

/// Records in the status that a definition has no objects left, and removes the finalizer that kept the definition.
pub fn mark_emptied(definition: &mut Value, now: &str) {
    let message = "removed all instances";
    set_condition(definition, ["Terminating", "False", "InstanceDeletionCompleted", message], now);
    let others =
        meta::finalizers(definition).filter(|one| *one != CLEANUP_FINALIZER).map(Into::into).collect();
    meta::set_finalizers(definition, others);
}

/// Returns whether the condition of this type has this status.
pub fn condition_is(definition: &Value, kind: &str, status: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == kind && one["status"] == status)
}
