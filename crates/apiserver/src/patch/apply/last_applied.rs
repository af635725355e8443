//! The annotation client-side `kubectl apply` leaves behind, honoured when kubectl turns to server-side apply.
//!
//! **Invariant:** only the manager named `kubectl` is treated so, and only objects that carry the annotation.

use serde_json::Value;

use super::compare::compare;
use super::place::Place;
use super::set::{self, Fields};
use super::{element, typed, validate};

/// The field manager of kubectl's server-side apply.
pub(super) const KUBECTL: &str = "kubectl";

/// Where client-side apply remembers what it applied.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that client-side apply set and that still have its values: kubectl may take them over.
pub(super) fn transferable(live: &Value, api_version: &str, root: Place<'_>) -> Option<Fields> {
    let applied = live.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    let applied: Value = serde_json::from_str(applied).ok()?;
    if applied.get("apiVersion")?.as_str()? != api_version {
        return None;
    }
    validate::validate(&applied, root).ok()?;
    let mut fields = typed::field_set(&applied, root);
    let difference = compare(&applied, live, root);
    set::subtract(&mut fields, &difference.changed);
    set::subtract(&mut fields, &difference.removed);
    Some(fields)
}

/// Brings the annotation of an object that has one up to date with what was applied now.
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
    *text = format!("{}\n", element::escaped(&applied.to_string()));
}
