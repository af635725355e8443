//! From protobuf to JSON, by table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::table::{Field as Row, Kind, Message, Shape};
use super::well_known::WellKnown;
use super::wire::{Field, Fields};
use crate::object::memory::Room;

/// Messages inside messages: as deep as JSON bodies may be.
const DEPTH_MAX: usize = 128;

/// Where in an object something is read, and the room there is for it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    depth: usize,
    pub(super) room: &'a Room,
}

impl<'a> Place<'a> {
    /// The object itself.
    pub(super) fn root(room: &'a Room) -> Self {
        Self { depth: 0, room }
    }

    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// What surrounds every object.
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

/// Opens an envelope; `None`: the bytes make no sense.
pub(super) fn envelope(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    let mut fields = Fields(bytes);
    while !fields.is_done() {
        match fields.field()? {
            (1, Field::Bytes(type_meta)) => {
                let mut parts = Fields(type_meta);
                while !parts.is_done() {
                    match parts.field()? {
                        (1, Field::Bytes(text)) => {
                            envelope.api_version = String::from_utf8(text.to_vec()).ok()?;
                        }
                        (2, Field::Bytes(text)) => envelope.kind = String::from_utf8(text.to_vec()).ok()?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Some(envelope)
}

/// The JSON fields of a message; `None`: the bytes make no sense, go too deep, or there is no room.
pub(super) fn message(bytes: &[u8], message: &Message, at: Place<'_>) -> Option<Map<String, Value>> {
    if at.depth > DEPTH_MAX {
        return None;
    }
    let mut object = Map::new();
    let mut fields = Fields(bytes);
    while !fields.is_done() {
        let (number, field) = fields.field()?;
        let Some(row) = message.field(number) else { continue };
        at.room.entry(row.json, object.len()).ok()?;
        put(&mut object, row, &field, at)?;
    }
    Some(object)
}

fn put(object: &mut Map<String, Value>, row: &Row, field: &Field<'_>, at: Place<'_>) -> Option<()> {
    match row.shape {
        Shape::Inline => {
            if let Value::Object(inner) = value(row, field, at)? {
                object.extend(inner);
            }
        }
        Shape::List => {
            let list = object.entry(row.json).or_insert_with(|| Value::Array(Vec::new()));
            at.room.item().ok()?;
            list.as_array_mut()?.push(value(row, field, at)?);
        }
        Shape::Map => {
            let (key, value) = entry(row, field, at)?;
            let map = object.entry(row.json).or_insert_with(|| Value::Object(Map::new()));
            let map = map.as_object_mut()?;
            at.room.entry(&key, map.len()).ok()?;
            map.insert(key, value);
        }
        Shape::Once => {
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

fn entry(row: &Row, field: &Field<'_>, at: Place<'_>) -> Option<(String, Value)> {
    let Field::Bytes(bytes) = field else { return None };
    let (mut key, mut found) = (String::new(), None);
    let mut fields = Fields(bytes);
    while !fields.is_done() {
        match fields.field()? {
            (1, Field::Bytes(text)) => key = String::from_utf8(text.to_vec()).ok()?,
            (2, part) => found = Some(value(row, &part, at)?),
            _ => {}
        }
    }
    let empty = || match row.kind {
        Kind::Message(_) => Value::Object(Map::new()),
        _ => Value::String(String::new()),
    };
    Some((key, found.unwrap_or_else(empty)))
}

fn value(row: &Row, field: &Field<'_>, at: Place<'_>) -> Option<Value> {
    Some(match (row.kind, field) {
        (Kind::Text, Field::Bytes(bytes)) => {
            at.room.take(bytes.len()).ok()?;
            String::from_utf8(bytes.to_vec()).ok()?.into()
        }
        (Kind::Bytes, Field::Bytes(bytes)) => {
            at.room.take(bytes.len()).ok()?;
            STANDARD.encode(bytes).into()
        }
        (Kind::Integer, Field::Varint(number)) => number.cast_signed().into(),
        (Kind::Boolean, Field::Varint(number)) => (*number != 0).into(),
        (Kind::Double, Field::Fixed64(bits)) => f64::from_bits(*bits).into(),
        (Kind::Message(name), Field::Bytes(bytes)) => match WellKnown::named(name) {
            Some(known) => known.read(bytes, at.below())?,
            None => Value::Object(message(bytes, Message::named(name)?, at.below())?),
        },
        _ => return None,
    })
}
