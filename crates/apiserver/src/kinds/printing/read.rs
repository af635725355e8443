//! Reading places of a parsed object that may be missing: missing text is empty, missing numbers are zero, missing
//! lists are empty, as in the typed objects Kubernetes prints from.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The value at a dotted path; `null` counts as missing.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The text, or what stands for none.
pub(crate) fn text_or<'a>(value: &'a Value, path: &str, none: &'a str) -> &'a str {
    Some(text(value, path)).filter(|text| !text.is_empty()).unwrap_or(none)
}

/// A number or text, as text: quantities and ports may be either.
pub(crate) fn scalar(value: &Value, path: &str) -> Option<String> {
    match at(value, path)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

pub(crate) fn number(value: &Value, path: &str) -> i64 {
    at(value, path).and_then(Value::as_i64).unwrap_or_default()
}

pub(crate) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn map<'a>(value: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(value, path).and_then(Value::as_object)
}

pub(crate) fn time(value: &Value, path: &str) -> Option<Timestamp> {
    at(value, path).and_then(Value::as_str).and_then(|text| text.parse().ok())
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "metadata.name")
}

/// Is it on its way out?
pub(crate) fn is_deleted(object: &Value) -> bool {
    at(object, "metadata.deletionTimestamp").is_some()
}

/// The condition of this type, below `status.conditions`.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "status.conditions").iter().find(|condition| text(condition, "type") == kind)
}

/// Is the condition of this type true?
pub(crate) fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "status") == "True")
}

/// Texts of a list, joined.
pub(crate) fn joined<'a>(values: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    values.into_iter().collect::<Vec<_>>().join(separator)
}

/// The texts at a path, joined.
pub(crate) fn texts(value: &Value, path: &str, separator: &str) -> String {
    joined(list(value, path).iter().filter_map(Value::as_str), separator)
}
