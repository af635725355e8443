//! Parses the identity of an object and stops there: most of an object follows its uid.
//!
//! **Invariant:** name and namespace precede the uid, in Kubernetes' order as well as in alphabetical order.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The identity of an object. Fields that the bytes do not contain are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectHead {
    /// The type of a watch event: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    pub(crate) change: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
}

impl ObjectHead {
    /// Parses an object, or a watch event with one; returns `None` if the bytes are neither.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut head = Self::default();
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let is_whole = HeadReader(&mut head).deserialize(&mut deserializer).is_ok();
        (is_whole || !head.uid.is_empty()).then_some(head)
    }
}

/// The fields of an event and of an object that matter.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum HeadField {
    Type,
    Object,
    Metadata,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum MetadataField {
    Name,
    Namespace,
    Uid,
    #[serde(other)]
    Other,
}

/// Parses an object, or an event.
struct HeadReader<'a>(&'a mut ObjectHead);

impl<'de> DeserializeSeed<'de> for HeadReader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeadReader<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key()? {
            match field {
                // Objects also have fields of this name, of any type.
                HeadField::Type => {
                    if let Value::String(change) = fields.next_value()? {
                        self.0.change = change;
                    }
                }
                HeadField::Object => fields.next_value_seed(HeadReader(self.0))?,
                HeadField::Metadata => fields.next_value_seed(MetadataReader(self.0))?,
                HeadField::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Parses metadata up to the uid.
struct MetadataReader<'a>(&'a mut ObjectHead);

impl<'de> DeserializeSeed<'de> for MetadataReader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetadataReader<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key()? {
            match field {
                MetadataField::Name => self.0.name = fields.next_value()?,
                MetadataField::Namespace => self.0.namespace = fields.next_value()?,
                MetadataField::Uid => {
                    self.0.uid = fields.next_value()?;
                    // Returning an error is the only way to stop here.
                    return Err(A::Error::custom("read far enough"));
                }
                MetadataField::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: Option<[&str; 4]>) {
        let head = ObjectHead::read(bytes.as_bytes());
        let read = head.as_ref().map(|head| [&*head.change, &*head.name, &*head.namespace, &*head.uid]);
        assert_eq!(read, expected, "{bytes}");
    }

    #[test]
    fn the_head_is_read() {
        let metadata = r#"{"name":"home","namespace":"default","uid":"u1","labels":{}}"#;
        let object = format!(r#"{{"kind":"Page","metadata":{metadata},"spec":{{"type":7}}}}"#);
        check(&object, Some(["", "home", "default", "u1"]));
        check(&format!(r#"{{"type":"ADDED","object":{object}}}"#), Some(["ADDED", "home", "default", "u1"]));
        check(
            r#"{"metadata":{"labels":{"name":"no"},"name":"node","uid":"u2"}}"#,
            Some(["", "node", "", "u2"]),
        );
    }

    #[test]
    fn an_object_without_a_uid_is_read_completely() {
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Page","metadata":{"resourceVersion":"7"}}}"#;
        check(bookmark, Some(["BOOKMARK", "", "", ""]));
        check(r#"{"type":{"of":"a Secret"},"metadata":{}}"#, Some(["", "", "", ""]));
        check("[1]", None);
        check(r#"{"type":"ADDED","object":{"#, None);
    }
}
