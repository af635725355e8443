//! RuntimeClass: says how containers of a class are run.

use jiff::Timestamp;
use serde_json::Value;

use crate::names;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Says how containers of a class are run.
pub static RUNTIME_CLASS: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Handler"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
};

/// Validates a RuntimeClass: its handler must be a label.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    object.field("handler").must_be_named(names::label, errors);
}

/// Validates a changed RuntimeClass.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("handler").must_stay(&old["handler"], errors);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::string_at(object, "handler").into(),
        age::age_of_object(object, now).into(),
    ]
}
