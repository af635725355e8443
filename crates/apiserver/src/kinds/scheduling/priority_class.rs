//! PriorityClass: how important Pods of a class are.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::{Kind, Protected};
use crate::kinds::fill::{Fields, fill};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{Generation, PLAIN};
use crate::kinds::validate::at::{At, Errors};

/// The priority classes every cluster has, and their values.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Priorities above this are the system's.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// How important Pods of a class are.
pub(crate) static PRIORITY_CLASS: Kind = Kind {
    short_names: &["pc"],
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.generation(Generation::Fixed),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    protected: Protected {
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
    ..Kind::cluster_scoped("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
};

/// A PriorityClass: the highest numbers and the `system-` names are the system's.
fn validate(object: &At<'_>, errors: &mut Errors) {
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

/// A changed PriorityClass.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    if new.field("value").number() != old["value"].as_i64().unwrap_or(0) {
        new.field("value").forbidden("may not be changed in an update.", errors);
    }
    new.field("preemptionPolicy").must_stay(&old["preemptionPolicy"], errors);
}

/// A PriorityClass.
fn defaults(object: &mut Fields) {
    fill(object, "preemptionPolicy", "PreemptLowerPriority");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::number(object, "value").into(),
        read::flag(object, "globalDefault").into(),
        age::of(object, now).into(),
        read::text(object, "preemptionPolicy").into(),
    ]
}
