//! Writes the definitions of the version 2 document as protobuf, in the messages of gnostic's `OpenAPIv2.proto`.
//!
//! kubectl reads this form when it validates objects itself, as it does for a `List`, and uses only the definitions.
//! Paths and value bounds are left out; clients that need them read JSON.

use serde_json::{Map, Value};

use super::VERSION;

/// The wire type of length-delimited values.
const LENGTH_DELIMITED: u64 = 2;

/// Field numbers of `Document`.
mod document {
    pub(super) const SWAGGER: u64 = 1;
    pub(super) const INFO: u64 = 2;
    pub(super) const PATHS: u64 = 8;
    pub(super) const DEFINITIONS: u64 = 9;
}

/// Field numbers of `Schema`.
mod schema {
    pub(super) const REFERENCE: u64 = 1;
    pub(super) const FORMAT: u64 = 2;
    pub(super) const DESCRIPTION: u64 = 4;
    pub(super) const DEFAULT: u64 = 5;
    pub(super) const REQUIRED: u64 = 19;
    pub(super) const ADDITIONAL_PROPERTIES: u64 = 21;
    pub(super) const TYPE: u64 = 22;
    pub(super) const ITEMS: u64 = 23;
    pub(super) const PROPERTIES: u64 = 25;
    pub(super) const VENDOR_EXTENSION: u64 = 31;
}

/// The only field of messages that wrap one value or a list of values.
const ONLY: u64 = 1;
/// Fields of messages that name a value.
const NAME: u64 = 1;
const VALUE: u64 = 2;
/// The field of `Any` that holds YAML, of which JSON is a subset.
const YAML: u64 = 2;
/// Fields of `Info`.
const TITLE: u64 = 1;
const INFO_VERSION: u64 = 2;

/// A message under construction.
#[derive(Default)]
struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).expect("seven bits fit") | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).expect("seven bits fit"));
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.number(field << 3 | LENGTH_DELIMITED);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: Option<&Value>) {
        if let Some(Value::String(text)) = text {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// Returns the definitions as a document.
pub(super) fn document(definitions: &Map<String, Value>) -> Vec<u8> {
    let mut info = MessageWriter::default();
    info.bytes(TITLE, b"Kubernetes");
    info.bytes(INFO_VERSION, VERSION.as_bytes());
    let mut out = MessageWriter::default();
    out.bytes(document::SWAGGER, b"2.0");
    out.message(document::INFO, &info);
    out.message(document::PATHS, &MessageWriter::default());
    out.message(document::DEFINITIONS, &named_schemas(definitions));
    out.0
}

/// Writes named schemas: `Definitions` and `Properties` are the same on the wire.
fn named_schemas(schemas: &Map<String, Value>) -> MessageWriter {
    let mut out = MessageWriter::default();
    for (name, value) in schemas {
        let mut named = MessageWriter::default();
        named.bytes(NAME, name.as_bytes());
        named.message(VALUE, &schema(value));
        out.message(ONLY, &named);
    }
    out
}

fn schema(value: &Value) -> MessageWriter {
    let mut out = MessageWriter::default();
    let Value::Object(map) = value else { return out };
    out.text(schema::REFERENCE, map.get("$ref"));
    out.text(schema::FORMAT, map.get("format"));
    out.text(schema::DESCRIPTION, map.get("description"));
    if let Some(default) = map.get("default") {
        out.message(schema::DEFAULT, &any(default));
    }
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
        out.text(schema::REQUIRED, Some(name));
    }
    for (key, field) in [("additionalProperties", schema::ADDITIONAL_PROPERTIES), ("items", schema::ITEMS)] {
        if let Some(below @ Value::Object(_)) = map.get(key) {
            let mut wrapped = MessageWriter::default();
            wrapped.message(ONLY, &schema(below));
            out.message(field, &wrapped);
        }
    }
    if let Some(kind @ Value::String(_)) = map.get("type") {
        let mut wrapped = MessageWriter::default();
        wrapped.text(ONLY, Some(kind));
        out.message(schema::TYPE, &wrapped);
    }
    if let Some(Value::Object(properties)) = map.get("properties") {
        out.message(schema::PROPERTIES, &named_schemas(properties));
    }
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut named = MessageWriter::default();
        named.bytes(NAME, name.as_bytes());
        named.message(VALUE, &any(value));
        out.message(schema::VENDOR_EXTENSION, &named);
    }
    out
}

fn any(value: &Value) -> MessageWriter {
    let mut out = MessageWriter::default();
    out.bytes(YAML, value.to_string().as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_nested_with_their_lengths() {
        let definitions = json!({"A": {"type": "object", "required": ["b"]}});
        let bytes = document(definitions.as_object().expect("is a map"));
        let schema = b"\x9a\x01\x01b\xb2\x01\x08\x0a\x06object";
        let named = [b"\x0a\x01A\x12\x0f", &schema[..]].concat();
        let expected = [b"\x4a\x16\x0a\x14", &named[..]].concat();
        assert!(bytes.starts_with(b"\x0a\x032.0\x12"), "{bytes:?}");
        assert!(bytes.ends_with(&expected), "{bytes:?}");
    }
}
