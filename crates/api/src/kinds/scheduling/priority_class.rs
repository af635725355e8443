//! PriorityClass: says how important Pods of a class are.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::fill::{JsonObject, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, ProtectedNames};
use crate::resource::strategy::{GenerationRule, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

/// The priority classes every cluster has, and their values.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Priorities above this are reserved for the system.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// Says how important Pods of a class are.
pub static PRIORITY_CLASS: BuiltInKind = BuiltInKind {
    short_names: &["pc"],
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.generation(GenerationRule::Fixed),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    protected: ProtectedNames {
        names: &[SYSTEM_PRIORITIES[0].0, SYSTEM_PRIORITIES[1].0],
        why: "this is a system priority class and cannot be deleted",
    },
    columns: &[
        Column::NAME,
        Column::number("Value"),
        Column::truth("Global-Default"),
        Column::text("Age"),
        Column::text("PreemptionPolicy"),
    ],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
};

/// Validates a PriorityClass: the highest numbers and the `system-` names are reserved for the system.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let (name, value) = (metadata.field("name"), object.field("value"));
    if name.text().starts_with("system-") {
        if !SYSTEM_PRIORITIES.contains(&(name.text(), value.number())) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known system priority class",
                name.text()
            );
            name.forbidden(&detail, errors);
        }
    } else if value.number() > PRIORITY_MAX {
        value.forbidden("maximum allowed value of a user defined priority is 1000000000", errors);
    }
    object.field("preemptionPolicy").must_be_one_of(&["PreemptLowerPriority", "Never"], errors);
}

/// Validates a changed PriorityClass.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    if new.field("value").number() != old["value"].as_i64().unwrap_or(0) {
        new.field("value").forbidden("may not be changed in an update.", errors);
    }
    new.field("preemptionPolicy").must_stay(&old["preemptionPolicy"], errors);
}

/// Fills in the defaults of a PriorityClass.
fn defaults(object: &mut JsonObject) {
    set_if_absent(object, "preemptionPolicy", "PreemptLowerPriority");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::integer_at(object, "value").into(),
        read::bool_at(object, "globalDefault").into(),
        age::age_of_object(object, now).into(),
        read::string_at(object, "preemptionPolicy").into(),
    ]
}
