//! Handles messages whose JSON is not an object of their fields: times, quantities, raw JSON, unions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::read::ReadContext;
use super::table::MessageType;
use super::wire::{WireReader, WireValue, put_bytes, put_number};
use super::{MAGIC, read, write};
use crate::object::memory::memory_of_json;

/// A message with its own JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WellKnown {
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Raw JSON in field 1.
    Raw,
    /// A list of strings in field 1.
    Texts,
    /// Field 1 is a schema, field 2 repeated schemas.
    SchemaOrSchemas,
    /// Field 1 is a boolean, field 2 a schema.
    SchemaOrBool,
    /// Field 1 is a schema, field 2 repeated strings.
    SchemaOrTexts,
}

const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl WellKnown {
    /// Returns the well-known message with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.rsplit('.').next().unwrap_or_default() {
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "Duration" => Self::Duration,
            "Quantity" => Self::Quantity,
            "IntOrString" => Self::IntOrString,
            "RawExtension" | "FieldsV1" | "JSON" => Self::Raw,
            "Verbs" | "ExtraValue" => Self::Texts,
            "JSONSchemaPropsOrArray" => Self::SchemaOrSchemas,
            "JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            "JSONSchemaPropsOrStringArray" => Self::SchemaOrTexts,
            _ => return None,
        })
    }

    /// Returns the JSON of its bytes; `None` if they are malformed.
    pub(super) fn read(self, bytes: &[u8], at: ReadContext<'_>) -> Option<Value> {
        let parts = NumberedFields::read(bytes)?;
        parts.bytes.iter().flatten().try_for_each(|_| at.room.item()).ok()?;
        Some(match self {
            Self::Time => parts.time(false)?,
            Self::MicroTime => parts.time(true)?,
            Self::Duration => duration_text(parts.numbers[1].cast_signed()).into(),
            Self::Quantity => text(parts.bytes[1].last().copied().unwrap_or_default())?.into(),
            Self::IntOrString if parts.numbers[1] == 1 => {
                text(parts.bytes[3].last().copied().unwrap_or_default())?.into()
            }
            Self::IntOrString => parts.numbers[2].cast_signed().into(),
            Self::Raw => {
                let bytes = parts.bytes[1].last().copied().unwrap_or_default();
                at.room.take(memory_of_json(bytes)).ok()?;
                raw(bytes)?
            }
            Self::Texts => {
                parts.bytes[1].iter().map(|one| text(one).map(Value::from)).collect::<Option<_>>()?
            }
            Self::SchemaOrSchemas => match parts.bytes[1].last() {
                Some(one) => schema(one, at)?,
                None => parts.bytes[2].iter().map(|one| schema(one, at)).collect::<Option<_>>()?,
            },
            Self::SchemaOrBool => match parts.bytes[2].last() {
                Some(one) => schema(one, at)?,
                None => Value::Bool(parts.numbers[1] != 0),
            },
            Self::SchemaOrTexts => match parts.bytes[1].last() {
                Some(one) => schema(one, at)?,
                None => parts.bytes[2].iter().map(|one| text(one).map(Value::from)).collect::<Option<_>>()?,
            },
        })
    }

    /// Returns the bytes of its JSON.
    pub(super) fn write(self, value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Time | Self::MicroTime => put_time(&mut bytes, value),
            Self::Duration => {
                let nanos = value.as_str().and_then(duration_nanos).unwrap_or_default();
                put_number(&mut bytes, 1, nanos.cast_unsigned());
            }
            Self::Quantity => put_text(&mut bytes, 1, value),
            Self::IntOrString => put_int_or_string(&mut bytes, value),
            Self::Raw => put_bytes(&mut bytes, 1, value.to_string().as_bytes()),
            Self::Texts => {
                value.as_array().into_iter().flatten().for_each(|one| put_text(&mut bytes, 1, one));
            }
            Self::SchemaOrSchemas | Self::SchemaOrTexts | Self::SchemaOrBool => {
                put_schema(&mut bytes, self, value);
            }
        }
        bytes
    }
}

/// The fields 1 to 3 of a message, of any type.
#[derive(Default)]
struct NumberedFields<'a> {
    numbers: [u64; 4],
    bytes: [Vec<&'a [u8]>; 4],
    is_empty: bool,
}

impl<'a> NumberedFields<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = Self { is_empty: bytes.is_empty(), ..Self::default() };
        let mut fields = WireReader(bytes);
        while !fields.is_done() {
            let (number, field) = fields.field()?;
            let at = usize::try_from(number).ok()?;
            match field {
                WireValue::Varint(value) if at < 4 => parts.numbers[at] = value,
                WireValue::Bytes(value) if at < 4 => parts.bytes[at].push(value),
                _ => {}
            }
        }
        Some(parts)
    }

    fn time(&self, is_micro: bool) -> Option<Value> {
        if self.is_empty {
            return Some(Value::Null);
        }
        let nanos = i32::try_from(self.numbers[2])
            .ok()
            .filter(|nanos| is_micro && (0..1_000_000_000).contains(nanos));
        let at = Timestamp::new(self.numbers[1].cast_signed(), nanos.unwrap_or_default()).ok()?;
        let format = if is_micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
        Some(at.strftime(format).to_string().into())
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Returns raw JSON, or an object in its own envelope.
fn raw(bytes: &[u8]) -> Option<Value> {
    if bytes.is_empty() {
        return Some(Value::Null);
    }
    if bytes.starts_with(&MAGIC) {
        return super::decode(bytes, "", "").ok();
    }
    serde_json::from_slice(bytes).ok().or_else(|| Some(STANDARD.encode(bytes).into()))
}

fn schema(bytes: &[u8], at: ReadContext<'_>) -> Option<Value> {
    read::message(bytes, MessageType::named(SCHEMA)?, at).map(Value::Object)
}

fn put_time(bytes: &mut Vec<u8>, value: &Value) {
    let Some(at) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else { return };
    put_number(bytes, 1, at.as_second().cast_unsigned());
    put_number(bytes, 2, u64::from(at.subsec_nanosecond().unsigned_abs()));
}

fn put_text(bytes: &mut Vec<u8>, number: u32, value: &Value) {
    put_bytes(bytes, number, value.as_str().map_or_else(|| value.to_string(), Into::into).as_bytes());
}

fn put_int_or_string(bytes: &mut Vec<u8>, value: &Value) {
    if let Some(text) = value.as_str() {
        put_number(bytes, 1, 1);
        put_number(bytes, 2, 0);
        put_bytes(bytes, 3, text.as_bytes());
    } else {
        put_number(bytes, 1, 0);
        put_number(bytes, 2, value.as_i64().unwrap_or_default().cast_unsigned());
        put_bytes(bytes, 3, b"");
    }
}

fn put_schema(bytes: &mut Vec<u8>, kind: WellKnown, value: &Value) {
    let Some(message) = MessageType::named(SCHEMA) else { return };
    let schema = |fields: &Map<String, Value>| write::message(fields, message);
    match (value, kind) {
        (Value::Bool(allows), _) => put_number(bytes, 1, u64::from(*allows)),
        (Value::Object(fields), WellKnown::SchemaOrBool) => {
            put_number(bytes, 1, 1);
            put_bytes(bytes, 2, &schema(fields));
        }
        (Value::Object(fields), _) => put_bytes(bytes, 1, &schema(fields)),
        (Value::Array(items), _) => {
            for item in items {
                match item.as_object() {
                    Some(fields) => put_bytes(bytes, 2, &schema(fields)),
                    None => put_text(bytes, 2, item),
                }
            }
        }
        _ => {}
    }
}

/// Returns a duration as Go formats it: `1h2m3.5s`.
fn duration_text(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let (hours, minutes) = (total / (3600 * SECOND), total / (60 * SECOND) % 60);
    let rest = total % (60 * SECOND);
    let fraction = format!("{:09}", rest % SECOND);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{}{point}{fraction}s", rest / SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}

/// Returns the nanoseconds of a duration in Go's format.
fn duration_nanos(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let number = rest[..end].parse::<f64>().ok()?;
        let units =
            [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        total += number * factor;
        rest = &rest[end + unit.len()..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "durations of the API are far below 292 years")]
    Some((sign * total) as i64)
}
