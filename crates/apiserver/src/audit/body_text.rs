//! A body as the audit log writes it: JSON without spaces and with sorted fields.
//!
//! **Invariant:** the text is the one that the parsed body would be written as: of equal fields the last one counts, and
//! numbers are written as numbers of JSON. It is made while the body is read, without parsing it as a whole: parsed, three
//! megabytes of empty maps take 200 MB, and a record keeps its body until the request ends.
//!
//! Only protobuf is parsed first, because nothing can read it field by field.

use std::fmt;

use homeostat_api::protobuf;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sorted_fields::FieldsInText;

/// What happens to `metadata.managedFields` of a body, or of the items and rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedFields {
    Keep,
    Omit,
}

/// A body as text.
#[derive(Debug)]
pub(super) struct BodyText(Vec<u8>);

impl BodyText {
    /// Reads a body that is protobuf, JSON or YAML.
    pub(super) fn parse(body: &[u8], managed_fields: ManagedFields) -> Option<Self> {
        if let Ok(object) = protobuf::decode(body, "", "") {
            return Self::write(&object, managed_fields, body.len());
        }
        Self::parse_json(body, managed_fields).or_else(|| {
            let Self(all) = serde_saphyr::from_str(std::str::from_utf8(body).ok()?).ok()?;
            Self::parse_json(&all, managed_fields)
        })
    }

    /// Reads a body that is JSON.
    pub(super) fn parse_json(body: &[u8], managed_fields: ManagedFields) -> Option<Self> {
        let mut source = serde_json::Deserializer::from_slice(body);
        let text = Self::write(&mut source, managed_fields, body.len())?;
        source.end().ok().map(|()| text)
    }

    fn write<'de>(
        source: impl Deserializer<'de>,
        managed_fields: ManagedFields,
        capacity: usize,
    ) -> Option<Self> {
        let place = match managed_fields {
            ManagedFields::Keep => BodyPlace::Elsewhere,
            ManagedFields::Omit => BodyPlace::Body,
        };
        let mut text = Vec::with_capacity(capacity);
        TextWriter { text: &mut text, place }.deserialize(source).ok()?;
        text.shrink_to_fit();
        Some(Self(text))
    }

    /// Returns the text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the Status that the text is, if it is one. Those are small.
    pub(super) fn status(&self) -> Option<Value> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct TypeOfBody {
            kind: String,
            api_version: String,
        }
        let TypeOfBody { kind, api_version } = serde_json::from_slice(&self.0).ok()?;
        let is_status = kind == "Status" && api_version == "v1";
        is_status.then(|| serde_json::from_slice(&self.0).ok()).flatten()
    }
}

impl<'de> Deserialize<'de> for BodyText {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut text = Vec::new();
        TextWriter { text: &mut text, place: BodyPlace::Elsewhere }.deserialize(source)?;
        Ok(Self(text))
    }
}

/// Where in a body a value is, as far as that decides about managed fields.
#[derive(Clone, Copy)]
enum BodyPlace {
    Body,
    Items,
    Rows,
    Row,
    Object,
    Metadata,
    Elsewhere,
}

impl BodyPlace {
    /// Returns the place of a field.
    fn of_field(self, name: &str) -> Self {
        match (self, name) {
            (Self::Body | Self::Object, "metadata") => Self::Metadata,
            (Self::Body, "items") => Self::Items,
            (Self::Body, "rows") => Self::Rows,
            (Self::Row, "object") => Self::Object,
            _ => Self::Elsewhere,
        }
    }

    /// Returns the place of the elements of a list.
    fn of_elements(self) -> Self {
        match self {
            Self::Items => Self::Object,
            Self::Rows => Self::Row,
            _ => Self::Elsewhere,
        }
    }
}

/// Writes the value that it reads.
struct TextWriter<'a> {
    text: &'a mut Vec<u8>,
    place: BodyPlace,
}

impl TextWriter<'_> {
    fn scalar<E: Error>(self, value: impl Serialize) -> Result<(), E> {
        serde_json::to_writer(self.text, &value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for TextWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextWriter<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.scalar(())
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        self.deserialize(source)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let place = self.place.of_elements();
        self.text.push(b'[');
        let start = self.text.len();
        loop {
            let end = self.text.len();
            if end > start {
                self.text.push(b',');
            }
            if list.next_element_seed(TextWriter { text: self.text, place })?.is_none() {
                self.text.truncate(end);
                self.text.push(b']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = FieldsInText::begin(self.text);
        while let Some(name) = map.next_key::<String>()? {
            if matches!(self.place, BodyPlace::Metadata) && name == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            fields.add(self.text, &name).map_err(A::Error::custom)?;
            map.next_value_seed(TextWriter { text: self.text, place: self.place.of_field(&name) })?;
        }
        fields.end(self.text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Entropy;

    use super::*;

    /// Returns what the parsed body is written as.
    fn written(body: &str) -> Option<String> {
        serde_json::from_str::<Value>(body).ok().map(|value| value.to_string())
    }

    fn read(body: &str, managed_fields: ManagedFields) -> Option<String> {
        let text = BodyText::parse(body.as_bytes(), managed_fields)?;
        Some(String::from_utf8(text.as_bytes().to_vec()).unwrap())
    }

    /// Returns a random body, with fields in any order, some of them twice, and with spaces.
    fn random_body(entropy: &Entropy, depth: u32) -> String {
        let scalars = [
            "null",
            "true",
            "0",
            "-1",
            "1.0",
            "1e3",
            "0.1",
            "18446744073709551615",
            "-0",
            "1E-7",
            "1e15",
            "\"\"",
            r#""a\u0041\n\"\\\/\u00e9é\ud83d\ude00""#,
        ];
        let names =
            [r#""b""#, r#""a""#, r#""\u0061""#, r#""""#, r#""a\"""#, r#""é""#, r#""metadata""#, r#""z\n""#];
        let choose = |all: &[&'static str]| all[usize::try_from(entropy.below(all.len() as u64)).unwrap()];
        match entropy.below(if depth == 0 { 1 } else { 3 }) {
            0 => choose(&scalars).to_owned(),
            1 => {
                let items = (0..entropy.below(4)).map(|_| random_body(entropy, depth - 1));
                format!("[ {} ]", items.collect::<Vec<_>>().join(" ,"))
            }
            _ => {
                let field = |_| format!("{} : {}", choose(&names), random_body(entropy, depth - 1));
                format!("{{ {} }}", (0..entropy.below(6)).map(field).collect::<Vec<_>>().join(",\n"))
            }
        }
    }

    #[test]
    fn the_text_is_the_one_of_the_parsed_body() {
        let entropy = Entropy::seeded(7);
        for _ in 0..3000 {
            let body = random_body(&entropy, 4);
            assert_eq!(read(&body, ManagedFields::Keep), written(&body), "{body}");
            assert_eq!(
                BodyText::parse_json(body.as_bytes(), ManagedFields::Keep).is_some(),
                written(&body).is_some()
            );
        }
        for broken in ["{", "[1,]", "{\"a\":1} x", "\"", "[1e999]"] {
            let text = BodyText::parse_json(broken.as_bytes(), ManagedFields::Keep);
            assert!(text.is_none() && written(broken).is_none(), "{broken}");
        }
        assert_eq!(read("b: [1, x]\na: {}\n", ManagedFields::Keep).unwrap(), r#"{"a":{},"b":[1,"x"]}"#);
    }

    #[test]
    fn managed_fields_are_omitted_where_objects_have_them() {
        let check = |body: &str, expected: &str| {
            assert_eq!(read(body, ManagedFields::Omit).as_deref(), Some(expected), "{body}");
            assert_eq!(read(body, ManagedFields::Keep), written(body), "{body}");
        };
        let (object, rest) =
            (r#"{"metadata":{"managedFields":[{"a":1}],"name":"n"}}"#, r#"{"metadata":{"name":"n"}}"#);
        check(object, rest);
        check(&format!(r#"{{"items":[{object},3]}}"#), &format!(r#"{{"items":[{rest},3]}}"#));
        check(
            &format!(r#"{{"rows":[{{"object":{object}}}]}}"#),
            &format!(r#"{{"rows":[{{"object":{rest}}}]}}"#),
        );
        check(&format!(r#"{{"spec":{object}}}"#), &format!(r#"{{"spec":{object}}}"#));
        check(&format!(r#"{{"items":{{"a":{object}}}}}"#), &format!(r#"{{"items":{{"a":{object}}}}}"#));
        check(&format!("[{object}]"), &format!("[{object}]"));
    }

    #[test]
    fn a_status_is_recognised() {
        let status = |body: &str| BodyText::parse(body.as_bytes(), ManagedFields::Keep)?.status();
        let refusal = r#"{"kind":"Status","apiVersion":"v1","message":"no"}"#;
        assert_eq!(status(refusal).expect("it is one")["message"], "no");
        assert_eq!(status(r#"{"kind":"Pod","apiVersion":"v1"}"#), None);
        assert_eq!(status(r#"{"kind":{},"apiVersion":"v1"}"#), None);
        assert_eq!(status("[]"), None);
    }
}
