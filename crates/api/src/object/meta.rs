//! Reads and writes the `metadata` of a JSON object.
//!
//! Absent and empty values are the same here, as in Kubernetes' own types: readers return an empty string, and writers
//! remove a field instead of setting it to nothing.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Returns the metadata, inserting an empty map if it is missing or not a map.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
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

/// Returns a string field of the metadata, empty if absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns the name.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Returns the namespace.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Returns the uid.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Returns whether the object is marked for deletion.
pub fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the generation, zero if the kind has none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Sets the generation; zero removes it.
pub fn set_generation(object: &mut Value, generation: i64) {
    if generation == 0 {
        metadata(object).remove("generation");
    } else {
        metadata(object).insert("generation".into(), generation.into());
    }
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns whether the object has this finalizer.
pub fn has_finalizer(object: &Value, name: &str) -> bool {
    finalizers(object).any(|one| one == name)
}

/// Sets the finalizers; an empty list removes the field.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        metadata(object).remove("finalizers");
    } else {
        metadata(object).insert("finalizers".into(), finalizers.into());
    }
}

/// Sets a field of the metadata, or removes it if there is no value.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => metadata(object).insert(field.into(), value),
        None => metadata(object).remove(field),
    };
}

/// Returns a time as `metav1.Time` prints it: whole seconds, UTC.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
