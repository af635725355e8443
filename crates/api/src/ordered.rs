//! Serializes JSON with the fields in the order of Go's types, because some clients and scripts compare the text of an
//! error or search the text of a discovery document. Objects are stored and sent in a different order, which no client
//! depends on.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

/// The order of the fields of an object. Other fields follow, by name.
pub struct FieldOrder {
    /// The field names, in order.
    pub names: &'static [&'static str],
    /// The order inside some of these fields; inside all others it is `below`.
    pub inside: &'static [(&'static str, &'static FieldOrder)],
    /// The order inside all other fields; `None` means this order again.
    pub below: Option<&'static FieldOrder>,
}

impl FieldOrder {
    fn rank(&self, name: &str) -> usize {
        self.names.iter().position(|one| *one == name).unwrap_or(self.names.len())
    }

    fn inside(&'static self, name: &str) -> &'static Self {
        let found = self.inside.iter().find(|(one, _)| *one == name).map(|(_, order)| *order);
        found.or(self.below).unwrap_or(self)
    }
}

/// A value that serializes in this order.
pub struct OrderedJson<'a>(pub &'a Value, pub &'static FieldOrder);

impl Serialize for OrderedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, order) = self;
        match value {
            Value::Object(fields) => {
                let mut fields = fields.iter().collect::<Vec<_>>();
                fields.sort_by_key(|(name, _)| order.rank(name));
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, &OrderedJson(value, order.inside(name)))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| OrderedJson(item, order))),
            scalar => scalar.serialize(serializer),
        }
    }
}
