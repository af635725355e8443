//! Decodes protobuf to JSON, with the table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::table::{Cardinality, FieldType, MessageField, MessageType};
use super::well_known::WellKnown;
use super::wire::{WireReader, WireValue};
use crate::object::memory::MemoryBudget;

/// The maximum nesting of messages, the same as for JSON bodies.
const DEPTH_MAX: usize = 128;

/// The depth at which a message is read, and the memory budget.
#[derive(Clone, Copy)]
pub(super) struct ReadContext<'a> {
    depth: usize,
    pub(super) room: &'a MemoryBudget,
}

impl<'a> ReadContext<'a> {
    /// Returns the context of a whole object.
    pub(super) fn root(room: &'a MemoryBudget) -> Self {
        Self { depth: 0, room }
    }

    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// The envelope around every object.
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

/// Opens an envelope; `None` if the bytes are malformed.
pub(super) fn envelope(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    let mut fields = WireReader(bytes);
    while !fields.is_done() {
        match fields.field()? {
            (1, WireValue::Bytes(type_meta)) => {
                let mut parts = WireReader(type_meta);
                while !parts.is_done() {
                    match parts.field()? {
                        (1, WireValue::Bytes(text)) => {
                            envelope.api_version = String::from_utf8(text.to_vec()).ok()?;
                        }
                        (2, WireValue::Bytes(text)) => {
                            envelope.kind = String::from_utf8(text.to_vec()).ok()?;
                        }
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Some(envelope)
}

/// Returns the JSON fields of a message; `None` if the bytes are malformed or too deep, or the memory budget is
/// exceeded.
pub(super) fn message(
    bytes: &[u8],
    message: &MessageType,
    at: ReadContext<'_>,
) -> Option<Map<String, Value>> {
    if at.depth > DEPTH_MAX {
        return None;
    }
    let mut object = Map::new();
    let mut fields = WireReader(bytes);
    while !fields.is_done() {
        let (number, field) = fields.field()?;
        let Some(row) = message.field(number) else { continue };
        at.room.entry(row.json, object.len()).ok()?;
        put(&mut object, row, &field, at)?;
    }
    Some(object)
}

fn put(
    object: &mut Map<String, Value>,
    row: &MessageField,
    field: &WireValue<'_>,
    at: ReadContext<'_>,
) -> Option<()> {
    match row.shape {
        Cardinality::Inline => {
            if let Value::Object(inner) = value(row, field, at)? {
                object.extend(inner);
            }
        }
        Cardinality::List => {
            let list = object.entry(row.json).or_insert_with(|| Value::Array(Vec::new()));
            at.room.item().ok()?;
            list.as_array_mut()?.push(value(row, field, at)?);
        }
        Cardinality::Map => {
            let (key, value) = entry(row, field, at)?;
            let map = object.entry(row.json).or_insert_with(|| Value::Object(Map::new()));
            let map = map.as_object_mut()?;
            at.room.entry(&key, map.len()).ok()?;
            map.insert(key, value);
        }
        Cardinality::Once => {
            let value = value(row, field, at)?;
            if !(value.is_null() || row.drops_zero && is_zero(&value)) {
                object.insert(row.json.to_owned(), value);
            }
        }
    }
    Some(())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Bool(true) | Value::Object(_) => false,
    }
}

fn entry(row: &MessageField, field: &WireValue<'_>, at: ReadContext<'_>) -> Option<(String, Value)> {
    let WireValue::Bytes(bytes) = field else { return None };
    let (mut key, mut found) = (String::new(), None);
    let mut fields = WireReader(bytes);
    while !fields.is_done() {
        match fields.field()? {
            (1, WireValue::Bytes(text)) => key = String::from_utf8(text.to_vec()).ok()?,
            (2, part) => found = Some(value(row, &part, at)?),
            _ => {}
        }
    }
    let empty = || match row.kind {
        FieldType::Message(_) => Value::Object(Map::new()),
        _ => Value::String(String::new()),
    };
    Some((key, found.unwrap_or_else(empty)))
}

fn value(row: &MessageField, field: &WireValue<'_>, at: ReadContext<'_>) -> Option<Value> {
    Some(match (row.kind, field) {
        (FieldType::Text, WireValue::Bytes(bytes)) => {
            at.room.take(bytes.len()).ok()?;
            String::from_utf8(bytes.to_vec()).ok()?.into()
        }
        (FieldType::Bytes, WireValue::Bytes(bytes)) => {
            at.room.take(bytes.len()).ok()?;
            STANDARD.encode(bytes).into()
        }
        (FieldType::Integer, WireValue::Varint(number)) => number.cast_signed().into(),
        (FieldType::Boolean, WireValue::Varint(number)) => (*number != 0).into(),
        (FieldType::Double, WireValue::Fixed64(bits)) => f64::from_bits(*bits).into(),
        (FieldType::Message(name), WireValue::Bytes(bytes)) => match WellKnown::named(name) {
            Some(known) => known.read(bytes, at.below())?,
            None => Value::Object(message(bytes, MessageType::named(name)?, at.below())?),
        },
        _ => return None,
    })
}
