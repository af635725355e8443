//! Protobuf: a decoded object can be encoded and decoded again, objects survive the round trip, and garbage is refused.
//!
//! Input: `{"bytes": text, "object": object of a built-in kind}`; each character of the text is a byte.

use homeostat_api::{protobuf, schema};
use serde_json::{Value, json};

use super::{BuiltInKinds, text_of, with_plain_numbers};
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

/// How many times longer JSON may be than its protobuf, in which names and zeros take no bytes.
const GROWTH_MAX: usize = 400;

pub(crate) struct Protobuf(BuiltInKinds);

impl Protobuf {
    pub(crate) fn new() -> Self {
        Self(BuiltInKinds::new())
    }

    fn check_bytes(bytes: &[u8]) -> Result<String, Violation> {
        let object = match protobuf::decode(bytes, "v1", "Pod") {
            Ok(object) => object,
            Err(status) => return Ok(status.message),
        };
        let size = object.to_string().len();
        require(size <= 1000 + bytes.len() * GROWTH_MAX, || {
            format!("too large: {size} bytes of {}", bytes.len())
        })?;
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let again = protobuf::encode(&object).map(|bytes| protobuf::decode(&bytes, "", ""));
        let again = again
            .ok_or("no message")?
            .map_err(|status| format!("cannot be decoded again: {}", status.message))?;
        let third = protobuf::encode(&again).map(|bytes| protobuf::decode(&bytes, "", ""));
        let third = third
            .ok_or("no message")?
            .map_err(|status| format!("cannot be decoded again: {}", status.message))?;
        require_equal("decoded, encoded and decoded", &third, &again)?;
        require_equal("decoded and encoded", &without_zeros(&again), &without_zeros(&object))?;
        Ok(format!("{kind} {}", super::merge_patch::shape(&object, 1)))
    }

    fn check_object(&self, mut object: Value) -> Result<String, Violation> {
        let Some(row) = self.0.row_of(&object) else { return Ok("no kind".to_owned()) };
        let schema = row.schema().expect("built-in kinds have schemas");
        schema::prune(&schema, &mut object, None);
        if let Err(why) = schema::decode(&schema, &mut object) {
            return Ok(why);
        }
        let Some(bytes) = protobuf::encode(&object) else { return Ok("no message".to_owned()) };
        let found =
            protobuf::decode(&bytes, "", "").map_err(|status| format!("own bytes: {}", status.message))?;
        require_equal("encoded and decoded", &without_zeros(&found), &without_zeros(&object))?;
        Ok(format!("{} {}", row.kind, super::merge_patch::shape(&object, 1)))
    }
}

impl Target for Protobuf {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let objects = corpus.objects.iter().step_by(2);
        let encoded = objects.filter_map(|object| Some((object, protobuf::encode(object)?)));
        let latin = |bytes: Vec<u8>| bytes.into_iter().map(char::from).collect::<String>();
        encoded.map(|(object, bytes)| json!({"bytes": latin(bytes), "object": object})).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\u{ff}\u{ff}\u{ff}\u{ff}\u{0f}",
            "\u{0a}",
            "\u{12}",
            "\u{1a}\u{80}",
            "\u{08}\u{01}",
            "k8s\0",
            "\u{12}\u{00}",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let bytes: Vec<u8> = text_of(input, "bytes")
            .chars()
            .map(|letter| u8::try_from(u32::from(letter) & 0xff).unwrap_or(0))
            .collect();
        Ok(vec![Self::check_bytes(&bytes)?, self.check_object(input["object"].clone())?])
    }
}

/// Returns the value without fields that are zero values in Go, which are not encoded.
fn without_zeros(value: &Value) -> Value {
    let is_zero = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), without_zeros(field)))
            .filter(|(_, field)| !is_zero(field))
            .collect(),
        Value::Array(items) => items.iter().map(without_zeros).collect(),
        scalar => with_plain_numbers(scalar),
    }
}
