//! JSON with its fields in the order of Go's types: some clients and scripts compare the text of a refusal or look for that of
//! a discovery document. Objects are stored and sent in an order of their own, which nobody minds.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

/// In which order the fields of an object stand. Others follow, by name.
pub(crate) struct Order {
    pub(crate) names: &'static [&'static str],
    /// The order inside some of these fields; inside all others it is `below`.
    pub(crate) inside: &'static [(&'static str, &'static Order)],
    /// `None`: this order again.
    pub(crate) below: Option<&'static Order>,
}

impl Order {
    fn rank(&self, name: &str) -> usize {
        self.names.iter().position(|one| *one == name).unwrap_or(self.names.len())
    }

    fn inside(&'static self, name: &str) -> &'static Self {
        let found = self.inside.iter().find(|(one, _)| *one == name).map(|(_, order)| *order);
        found.or(self.below).unwrap_or(self)
    }
}

/// A value to be written in an order.
pub(crate) struct Ordered<'a>(pub(crate) &'a Value, pub(crate) &'static Order);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, order) = self;
        match value {
            Value::Object(fields) => {
                let mut fields = fields.iter().collect::<Vec<_>>();
                fields.sort_by_key(|(name, _)| order.rank(name));
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, &Ordered(value, order.inside(name)))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| Ordered(item, order))),
            scalar => scalar.serialize(serializer),
        }
    }
}
