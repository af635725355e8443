//! Parses stored objects without their managed fields, which are about half of each object and not state.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Returns an object without its managed fields; `None` if the bytes are not an object.
pub(crate) fn read_object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice::<WholeObject>(bytes).ok().map(|object| Value::Object(object.0))
}

struct WholeObject(Map<String, Value>);

struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for WholeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor { is_metadata: false }).map(Self)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor { is_metadata: true }).map(Self)
    }
}

/// Collects the fields of an object or of its metadata.
struct FieldsVisitor {
    is_metadata: bool,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if self.is_metadata && name == "managedFields" {
                fields.next_value::<IgnoredAny>()?;
            } else if !self.is_metadata && name == "metadata" {
                let metadata = fields.next_value::<Metadata>()?;
                found.insert(name, Value::Object(metadata.0));
            } else {
                found.insert(name, fields.next_value()?);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_managed_fields_are_left_out() {
        let managed = json!([{"manager": "somebody", "fieldsV1": {"f:data": {}}}]);
        let object = json!({"metadata": {"name": "home", "managedFields": managed}, "data": {"managedFields": "kept"}});
        let read = read_object(object.to_string().as_bytes());
        assert_eq!(read, Some(json!({"metadata": {"name": "home"}, "data": {"managedFields": "kept"}})));
        assert_eq!(read_object(b"[1]"), None);
        assert_eq!(read_object(b"{\"metadata\""), None);
    }
}
