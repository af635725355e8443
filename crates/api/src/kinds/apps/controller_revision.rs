//! ControllerRevision: an earlier state to which a controller can roll back.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::value_at::{Errors, ValueAt};

/// An earlier state to which a controller can roll back.
pub(crate) static CONTROLLER_REVISION: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1", "v1beta2"],
    validate: Some(validate),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Controller"), Column::text("Revision"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
};

/// Validates a ControllerRevision.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    object.field("revision").must_not_be_negative(errors);
}

/// Validates a new ControllerRevision: it must hold an object.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate(object, errors);
    let data = object.field("data");
    if !data.is_set() {
        data.required("data is mandatory", errors);
    } else if !data.value.is_object() {
        data.required("data must be a valid JSON object", errors);
    }
}

/// Validates a changed ControllerRevision: its data must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("data").must_stay(&old["data"], errors);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = read::list_at(object, "metadata.ownerReferences");
    let controller = owners.iter().find(|owner| read::bool_at(owner, "controller"));
    vec![
        read::name(object).into(),
        controller.map_or_else(|| "<none>".to_owned(), qualified).into(),
        read::integer_at(object, "revision").into(),
        age::age_of_object(object, now).into(),
    ]
}

/// Returns a name such as `deployment.apps/web`.
fn qualified(owner: &Value) -> String {
    let kind = read::string_at(owner, "kind").to_lowercase();
    let group = read::string_at(owner, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", read::string_at(owner, "name"))
}
