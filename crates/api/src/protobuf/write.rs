//! Encodes JSON as protobuf, with the table. Fields missing from the table are left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MAGIC;
use super::table::{Cardinality, FieldType, MessageField, MessageType};
use super::well_known::WellKnown;
use super::wire::{put_bytes, put_fixed64, put_length, put_number};

/// Wraps the bytes of an object in an envelope that names its kind.
pub(super) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let (mut bytes, end) = envelope_around(api_version, kind, raw.len());
    bytes.extend_from_slice(raw);
    bytes.extend_from_slice(&end);
    bytes
}

/// Returns what an envelope has before and after the bytes of its object, of which there are this many.
pub(super) fn envelope_around(api_version: &str, kind: &str, length: usize) -> (Vec<u8>, Vec<u8>) {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let (mut start, mut end) = (MAGIC.to_vec(), Vec::new());
    put_bytes(&mut start, 1, &type_meta);
    put_length(&mut start, 2, length);
    put_bytes(&mut end, 3, b"");
    put_bytes(&mut end, 4, b"");
    (start, end)
}

/// Returns the bytes of a message with these JSON fields.
pub(super) fn message(object: &Map<String, Value>, message: &MessageType) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in &message.fields {
        match field.shape {
            Cardinality::Inline => put_inline(&mut bytes, field, object),
            Cardinality::Once => {
                if let Some(value) = object.get(field.json) {
                    put(&mut bytes, field.number, field.kind, value);
                }
            }
            Cardinality::List => {
                let items = object.get(field.json).and_then(Value::as_array).into_iter().flatten();
                items.for_each(|item| put(&mut bytes, field.number, field.kind, item));
            }
            Cardinality::Map => {
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

/// Writes an inline message, which is separate on the wire, if any of its fields is present.
fn put_inline(bytes: &mut Vec<u8>, field: &MessageField, object: &Map<String, Value>) {
    let FieldType::Message(name) = field.kind else { return };
    if let Some(inner) = MessageType::named(name) {
        let inner = message(object, inner);
        if !inner.is_empty() {
            put_bytes(bytes, field.number, &inner);
        }
    }
}

fn put(bytes: &mut Vec<u8>, number: u32, kind: FieldType, value: &Value) {
    match (kind, value) {
        (FieldType::Text, Value::String(text)) => put_bytes(bytes, number, text.as_bytes()),
        (FieldType::Bytes, Value::String(text)) => {
            put_bytes(bytes, number, &STANDARD.decode(text).unwrap_or_default());
        }
        (FieldType::Integer, Value::Number(value)) => {
            put_number(bytes, number, value.as_i64().unwrap_or_default().cast_unsigned());
        }
        (FieldType::Boolean, Value::Bool(value)) => put_number(bytes, number, u64::from(*value)),
        (FieldType::Double, Value::Number(value)) => {
            put_fixed64(bytes, number, value.as_f64().unwrap_or_default().to_bits());
        }
        (FieldType::Message(name), value) => match (WellKnown::named(name), value) {
            (Some(_), Value::Null) => {}
            (Some(known), value) => put_bytes(bytes, number, &known.write(value)),
            (None, Value::Object(fields)) => {
                if let Some(inner) = MessageType::named(name) {
                    put_bytes(bytes, number, &message(fields, inner));
                }
            }
            (None, _) => {}
        },
        _ => {}
    }
}
