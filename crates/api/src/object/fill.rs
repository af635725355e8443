//! Fills and compares JSON objects with the semantics of Go's zero values: absent, null and zero are the same for a
//! plain field.
//!
//! Defaults, preparation and validation share these functions; they are independent of kinds.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::read;

/// A JSON object.
pub type JsonObject = Map<String, Value>;

/// Returns the object at `name`, inserting an empty one if it is absent: a struct that is always present in Go.
pub(crate) fn object_or_insert<'a>(parent: &'a mut JsonObject, name: &str) -> Option<&'a mut JsonObject> {
    let value = parent.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Returns the object at `name`, if there is one.
pub(crate) fn object_mut<'a>(parent: &'a mut JsonObject, name: &str) -> Option<&'a mut JsonObject> {
    parent.get_mut(name)?.as_object_mut()
}

/// Returns the objects in the list at `name`.
pub(crate) fn objects_mut<'a>(
    parent: &'a mut JsonObject,
    name: &str,
) -> impl Iterator<Item = &'a mut JsonObject> {
    parent.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets `name` if it is absent or null: the default of a pointer.
pub(crate) fn set_if_absent(parent: &mut JsonObject, name: &str, value: impl Into<Value>) {
    if parent.get(name).is_none_or(Value::is_null) {
        parent.insert(name.into(), value.into());
    }
}

/// Sets `name` if it is absent or the zero of its type: the default of a plain field.
pub(crate) fn set_if_zero(parent: &mut JsonObject, name: &str, value: impl Into<Value>) {
    if is_zero(parent.get(name)) {
        parent.insert(name.into(), value.into());
    }
}

/// Returns whether the value is absent or the zero of its type, such as an empty list or map.
pub fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Bool(true)) => false,
    }
}

/// Returns the objects of a list by name; the first one wins if several share a name.
pub(crate) fn first_by_name(list: &[Value]) -> HashMap<&str, &Value> {
    list.iter().rev().map(|one| (read::string_at(one, "name"), one)).collect()
}

/// Returns whether two values are the same to Go, which treats absent, null, zero and empty alike.
pub fn is_same(left: &Value, right: &Value) -> bool {
    left == right || (is_zero(Some(left)) && is_zero(Some(right)))
}
