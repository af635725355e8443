//! RuntimeClass: how containers of a class are run.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::names;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

/// How containers of a class are run.
pub(crate) static RUNTIME_CLASS: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Handler"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
};

/// A RuntimeClass: its handler stays.
fn validate(object: &At<'_>, errors: &mut Errors) {
    object.field("handler").must_be_named(names::label, errors);
}

/// A changed RuntimeClass.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("handler").must_stay(&old["handler"], errors);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "handler").into(), age::of(object, now).into()]
}
