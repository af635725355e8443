//! From JSON to protobuf, by table. What the table does not know is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MAGIC;
use super::table::{Field, Kind, Message, Shape};
use super::well_known::WellKnown;
use super::wire::{put_bytes, put_fixed64, put_number};

/// An object's bytes with what says their kind.
pub(super) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut bytes = MAGIC.to_vec();
    put_bytes(&mut bytes, 1, &type_meta);
    put_bytes(&mut bytes, 2, raw);
    put_bytes(&mut bytes, 3, b"");
    put_bytes(&mut bytes, 4, b"");
    bytes
}

/// The bytes of a message with these JSON fields.
pub(super) fn message(object: &Map<String, Value>, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in &message.fields {
        match field.shape {
            Shape::Inline => put_inline(&mut bytes, field, object),
            Shape::Once => {
                if let Some(value) = object.get(field.json) {
                    put(&mut bytes, field.number, field.kind, value);
                }
            }
            Shape::List => {
                let items = object.get(field.json).and_then(Value::as_array).into_iter().flatten();
                items.for_each(|item| put(&mut bytes, field.number, field.kind, item));
            }
            Shape::Map => {
                let entries = object.get(field.json).and_then(Value::as_object).into_iter().flatten();
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    put(&mut entry, 2, field.kind, value);
                    put_bytes(&mut bytes, field.number, &entry);
                }
            }
        }
    }
    bytes
}

/// An inline message stands on its own on the wire, if any of its fields is there.
fn put_inline(bytes: &mut Vec<u8>, field: &Field, object: &Map<String, Value>) {
    let Kind::Message(name) = field.kind else { return };
    if let Some(inner) = Message::named(name) {
        let inner = message(object, inner);
        if !inner.is_empty() {
            put_bytes(bytes, field.number, &inner);
        }
    }
}

fn put(bytes: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    match (kind, value) {
        (Kind::Text, Value::String(text)) => put_bytes(bytes, number, text.as_bytes()),
        (Kind::Bytes, Value::String(text)) => {
            put_bytes(bytes, number, &STANDARD.decode(text).unwrap_or_default());
        }
        (Kind::Integer, Value::Number(value)) => {
            put_number(bytes, number, value.as_i64().unwrap_or_default().cast_unsigned());
        }
        (Kind::Boolean, Value::Bool(value)) => put_number(bytes, number, u64::from(*value)),
        (Kind::Double, Value::Number(value)) => {
            put_fixed64(bytes, number, value.as_f64().unwrap_or_default().to_bits());
        }
        (Kind::Message(name), value) => match (WellKnown::named(name), value) {
            (Some(_), Value::Null) => {}
            (Some(known), value) => put_bytes(bytes, number, &known.write(value)),
            (None, Value::Object(fields)) => {
                if let Some(inner) = Message::named(name) {
                    put_bytes(bytes, number, &message(fields, inner));
                }
            }
            (None, _) => {}
        },
        _ => {}
    }
}
