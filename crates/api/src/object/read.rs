//! Reads fields that may be missing from JSON objects, by dotted path: missing strings are empty, missing numbers are
//! zero, missing lists are empty, as in Kubernetes' typed objects.
//!
//! All reads go through these functions. A key that may contain dots (a label, a resource) is read by indexing the
//! value. `meta` reads the fields of `metadata`, `fill` changes objects, and `resource::value_at` adds the path that
//! errors need.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Returns the value at a dotted path; `null` counts as missing.
pub(crate) fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// Returns the string at a dotted path, empty if absent.
pub(crate) fn string_at<'a>(value: &'a Value, path: &str) -> &'a str {
    value_at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string, or `none` if it is empty.
pub(crate) fn string_at_or<'a>(value: &'a Value, path: &str, none: &'a str) -> &'a str {
    Some(string_at(value, path)).filter(|text| !text.is_empty()).unwrap_or(none)
}

/// Returns a number or string as a string: quantities and ports may be either.
pub(crate) fn scalar_at(value: &Value, path: &str) -> Option<String> {
    match value_at(value, path)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the number at a dotted path, zero if absent.
pub(crate) fn integer_at(value: &Value, path: &str) -> i64 {
    value_at(value, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean at a dotted path, false if absent.
pub(crate) fn bool_at(value: &Value, path: &str) -> bool {
    value_at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the items of the list at a dotted path, none if absent.
pub(crate) fn list_at<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value_at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the object at a dotted path, if there is one.
pub(crate) fn object_at<'a>(value: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    value_at(value, path).and_then(Value::as_object)
}

/// Returns the time at a dotted path, if it is present and valid.
pub(crate) fn time_at(value: &Value, path: &str) -> Option<Timestamp> {
    value_at(value, path).and_then(Value::as_str).and_then(|text| text.parse().ok())
}

/// Returns the name of an object.
pub(crate) fn name(object: &Value) -> &str {
    string_at(object, "metadata.name")
}

/// Returns whether the object is being deleted.
pub(crate) fn is_deleted(object: &Value) -> bool {
    value_at(object, "metadata.deletionTimestamp").is_some()
}

/// Returns the condition of this type in `status.conditions`.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(object, "status.conditions").iter().find(|condition| string_at(condition, "type") == kind)
}

/// Returns whether the condition of this type is true.
pub(crate) fn has_true_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| string_at(condition, "status") == "True")
}

/// Joins strings.
pub(crate) fn joined<'a>(values: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    values.into_iter().collect::<Vec<_>>().join(separator)
}

/// Joins the strings in the list at a path.
pub(crate) fn join_strings_at(value: &Value, path: &str, separator: &str) -> String {
    joined(list_at(value, path).iter().filter_map(Value::as_str), separator)
}
