//! Reading and filling JSON the way Go's zero values do: absent, null and zero are the same thing for a plain field.
//!
//! Only what defaults, preparation and validation share; nothing here knows a kind.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// An object under construction.
pub(crate) type Fields = Map<String, Value>;

/// The object at `name`, made if absent: a struct that is always there in Go.
pub(crate) fn made<'a>(parent: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    let value = parent.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The object at `name`, if there.
pub(crate) fn inner<'a>(parent: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    parent.get_mut(name)?.as_object_mut()
}

/// The objects of the list at `name`.
pub(crate) fn each<'a>(parent: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    parent.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets `name` when it is absent or null: the default of a pointer.
pub(crate) fn fill(parent: &mut Fields, name: &str, value: impl Into<Value>) {
    if parent.get(name).is_none_or(Value::is_null) {
        parent.insert(name.into(), value.into());
    }
}

/// Sets `name` when it is absent or the zero of its type: the default of a plain field.
pub(crate) fn fill_zero(parent: &mut Fields, name: &str, value: impl Into<Value>) {
    if is_zero(parent.get(name)) {
        parent.insert(name.into(), value.into());
    }
}

/// Absent, or the zero of its type; an empty list or map counts.
pub(crate) fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Bool(true)) => false,
    }
}

/// The value at a path of field names; null where anything is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| value.get(*name).unwrap_or(&Value::Null))
}

/// The text at `name`, empty when absent.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of the list at `name`, none when absent.
pub(crate) fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The objects of a list by their names; of several with one name, the first.
pub(crate) fn first_by_name(list: &[Value]) -> HashMap<&str, &Value> {
    list.iter().rev().map(|one| (text(one, "name"), one)).collect()
}

/// Are two values the same to Go: absent, null, zero and empty alike?
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    left == right || (is_zero(Some(left)) && is_zero(Some(right)))
}
