//! Handles the annotation that client-side `kubectl apply` writes, which counts when kubectl switches to server-side
//! apply.
//!
//! **Invariant:** this applies only to the manager named `kubectl`, and only to objects that have the annotation.

use serde_json::Value;

use super::compare::compare;
use super::field_set::{self, FieldSet};
use super::schema_position::SchemaPosition;
use super::{owned_fields, path_step, validate};

/// The field manager of kubectl's server-side apply.
pub(super) const KUBECTL: &str = "kubectl";

/// The annotation in which client-side apply stores what it applied.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields that client-side apply set and that still have its values: kubectl may take them over.
pub(super) fn transferable(live: &Value, api_version: &str, root: SchemaPosition<'_>) -> Option<FieldSet> {
    let applied = live.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    let applied: Value = serde_json::from_str(applied).ok()?;
    if applied.get("apiVersion")?.as_str()? != api_version {
        return None;
    }
    validate::validate(&applied, root).ok()?;
    let mut fields = owned_fields::field_set(&applied, root);
    let difference = compare(&applied, live, root);
    field_set::subtract(&mut fields, &difference.changed);
    field_set::subtract(&mut fields, &difference.removed);
    Some(fields)
}

/// Updates the annotation of an object that has one, to hold the applied configuration.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(Value::String(text)) = annotations.get_mut(ANNOTATION).filter(|text| *text != "") else {
        return;
    };
    let mut applied = config.clone();
    if let Some(own) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        own.remove(ANNOTATION);
    }
    *text = format!("{}\n", path_step::escaped(&applied.to_string()));
}
