//! Reading and writing `metadata` of a JSON object.
//!
//! Absent and empty are the same here, as in Kubernetes' own types: readers give empty text, writers remove what
//! they would set to nothing.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The metadata map, made when it is missing or not a map.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let map = object.as_object_mut().expect("made an object above");
    let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object above")
}

/// A text of the metadata, empty when absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Name.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Namespace.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Uid.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Is it marked for deletion?
pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The generation, zero when the kind keeps none.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Sets the generation; zero removes it.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if generation == 0 {
        metadata(object).remove("generation");
    } else {
        metadata(object).insert("generation".into(), generation.into());
    }
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Has it this finalizer?
pub(crate) fn has_finalizer(object: &Value, name: &str) -> bool {
    finalizers(object).any(|one| one == name)
}

/// Sets the finalizers; none removes the field.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        metadata(object).remove("finalizers");
    } else {
        metadata(object).insert("finalizers".into(), finalizers.into());
    }
}

/// Puts a value into the metadata, or removes the field when there is none.
pub(crate) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => metadata(object).insert(field.into(), value),
        None => metadata(object).remove(field),
    };
}

/// A time as `metav1.Time` prints it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
