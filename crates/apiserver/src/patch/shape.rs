//! Small schemas for the tests of this folder.

use crate::schema::{Kind, ListType, Object, Property, Schema};

/// A place with this schema and nothing special about merging.
pub(crate) fn field(schema: Schema) -> Property {
    Property::new(schema)
}

/// Text.
pub(crate) fn text() -> Property {
    field(Schema { kind: Kind::String("".into()), ..Schema::default() })
}

/// An object with these properties.
pub(crate) fn object<const N: usize>(properties: [(&str, Property); N]) -> Schema {
    let properties = properties.into_iter().map(|(name, property)| (name.into(), property)).collect();
    Schema { kind: Kind::Object(Object { properties, ..Object::default() }), ..Schema::default() }
}

/// An atomic list.
pub(crate) fn list_of(item: Property) -> Property {
    field(Schema { kind: Kind::Array(item), ..Schema::default() })
}

/// A list of objects identified by these keys; strategic merge uses the first one.
pub(crate) fn list_map(item: Schema, keys: &[&str]) -> Property {
    let mut list = list_of(field(item));
    list.merge.list = ListType::Map(keys.iter().map(|key| (*key).into()).collect());
    list.merge.patch.merge = true;
    list.merge.patch_key = Some(keys[0].into());
    list
}
