//! ControllerRevision: an earlier state that a controller can go back to.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::validate::at::{At, Errors};

/// An earlier state that a controller can go back to.
pub(crate) static CONTROLLER_REVISION: Kind = Kind {
    old_versions: &["v1beta1", "v1beta2"],
    validate: Some(validate),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Controller"), Column::text("Revision"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
};

/// A ControllerRevision.
fn validate(object: &At<'_>, errors: &mut Errors) {
    object.field("revision").must_not_be_negative(errors);
}

/// A new ControllerRevision: it keeps some object.
fn validate_create(object: &At<'_>, errors: &mut Errors) {
    validate(object, errors);
    let data = object.field("data");
    if !data.is_set() {
        data.required("data is mandatory", errors);
    } else if !data.value.is_object() {
        data.required("data must be a valid JSON object", errors);
    }
}

/// A changed ControllerRevision: what it keeps stays.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("data").must_stay(&old["data"], errors);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = read::list(object, "metadata.ownerReferences");
    let controller = owners.iter().find(|owner| read::flag(owner, "controller"));
    vec![
        read::name(object).into(),
        controller.map_or_else(|| "<none>".to_owned(), qualified).into(),
        read::number(object, "revision").into(),
        age::of(object, now).into(),
    ]
}

/// `deployment.apps/web`.
fn qualified(owner: &Value) -> String {
    let kind = read::text(owner, "kind").to_lowercase();
    let group = read::text(owner, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", read::text(owner, "name"))
}
