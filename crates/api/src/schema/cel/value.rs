//! Converts object values to CEL values: times and bytes are parsed according to their format, and names are escaped.
//!
//! A value is converted once, at the topmost node that has rules; rules below it get its parts.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map, Opaque, OptionalValue};
use kube_cel::cel;
use serde_json::Value as Json;

use super::calls::library;
use super::lists::TypedLists;
use super::program::{CompiledSchema, ValueFormat};
use super::types::escape;

/// Converts a value of the object to CEL; `node` is its schema.
pub(super) fn convert(json: &Json, node: Option<&CompiledSchema>, lists: &mut TypedLists) -> Value {
    let format = node.map_or(ValueFormat::None, |node| node.format);
    match json {
        Json::Null => Value::Null,
        Json::Bool(is) => Value::Bool(*is),
        Json::Number(number) => match (format, number.as_i64(), number.as_u64()) {
            (ValueFormat::None, Some(number), _) => Value::Int(number),
            (ValueFormat::None, None, Some(number)) => Value::UInt(number),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => formatted(text, format),
        Json::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            let list = Arc::new(items.iter().map(|item| convert(item, below, lists)).collect());
            if let Some(sort) = node.and_then(|node| node.list_sort.clone()) {
                lists.insert(&list, sort);
            }
            Value::List(list)
        }
        Json::Object(fields) => {
            let entries = fields.iter().map(|(name, field)| {
                let child = node.and_then(|node| node.child(name));
                (key(node, name), convert(field, child, lists))
            });
            Value::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

/// Returns the part of a converted value with this name.
pub(super) fn part(value: &Value, node: &CompiledSchema, name: &str) -> Option<Value> {
    match value {
        Value::Map(map) => map.map.get(&key(Some(node), name)).cloned(),
        _ => None,
    }
}

/// Returns a key: field names are escaped, while map keys are data.
fn key(node: Option<&CompiledSchema>, name: &str) -> Key {
    let is_map = node.is_some_and(|node| node.values.is_some());
    let name = if is_map { None } else { escape(name) }.unwrap_or_else(|| name.to_owned());
    Key::String(Arc::new(name))
}

fn formatted(text: &str, format: ValueFormat) -> Value {
    let plain = || Value::String(Arc::new(text.to_owned()));
    let read =
        |function: &str, text: String| library(function, None, vec![Value::String(Arc::new(text))]).ok();
    match format {
        ValueFormat::DateTime => read("timestamp", text.to_owned()).unwrap_or_else(plain),
        ValueFormat::Date => read("timestamp", format!("{text}T00:00:00Z")).unwrap_or_else(plain),
        ValueFormat::Duration => read("duration", text.to_owned()).unwrap_or_else(plain),
        ValueFormat::Byte => {
            // The library's decoder returns bytes.
            read("base64.decode", text.to_owned()).map_or_else(plain, |bytes| match bytes {
                Value::String(text) => Value::Bytes(Arc::new(text.as_bytes().to_vec())),
                bytes => bytes,
            })
        }
        ValueFormat::None | ValueFormat::Number => plain(),
    }
}

/// Returns an optional value.
pub(super) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Returns the content of an optional; `None` if the value is not an optional.
#[expect(clippy::option_option, reason = "the outer says whether it is an optional, the inner what is in it")]
pub(super) fn as_optional(value: &Value) -> Option<Option<&Value>> {
    let Value::Opaque(opaque) = value else { return None };
    opaque.downcast_ref::<OptionalValue>().map(OptionalValue::value)
}

/// A type as a value: the result of `type(self)`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeValue(pub(super) String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

/// Returns the value of a name that stands for a type.
pub(super) fn named_type(name: &str) -> Option<Value> {
    let is_type = matches!(
        name,
        "bool"
            | "int"
            | "uint"
            | "double"
            | "string"
            | "bytes"
            | "list"
            | "map"
            | "null_type"
            | "type"
            | "dyn"
            | "optional_type"
            | "google.protobuf.Timestamp"
            | "google.protobuf.Duration"
            | "kubernetes.URL"
            | "kubernetes.Quantity"
            | "kubernetes.Semver"
            | "net.IP"
            | "net.CIDR"
    );
    is_type.then(|| Value::Opaque(Arc::new(TypeValue(name.to_owned()))))
}

/// Returns the type of a value.
pub(super) fn type_of(value: &Value) -> Value {
    let name = match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Function(..) => "function",
    };
    Value::Opaque(Arc::new(TypeValue(name.to_owned())))
}

/// Returns the value as a map key.
pub(super) fn as_key(value: &Value) -> Option<Key> {
    match value {
        Value::String(text) => Some(Key::String(Arc::clone(text))),
        Value::Int(number) => Some(Key::Int(*number)),
        Value::UInt(number) => Some(Key::Uint(*number)),
        Value::Bool(is) => Some(Key::Bool(*is)),
        _ => None,
    }
}

/// Returns a map with these entries.
pub(super) fn map_of(entries: HashMap<Key, Value>) -> Value {
    Value::Map(Map { map: Arc::new(entries) })
}

/// Returns the number of elements, entries or bytes; one for everything else.
pub(super) fn size_of(value: &Value) -> u64 {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        other => return as_optional(other).flatten().map_or(1, size_of),
    };
    size as u64
}
