//! Provides small schemas for the tests in this folder.

use serde_json::json;

use crate::schema::{IntegerWidth, ListType, ObjectSchema, Property, Schema, SchemaType};

/// Returns a property with this schema and default merging.
pub(crate) fn field(schema: Schema) -> Property {
    Property::new(schema)
}

/// Returns a string property.
pub(crate) fn text() -> Property {
    field(Schema { kind: SchemaType::String("".into()), ..Schema::default() })
}

/// Returns an object with these properties.
pub(crate) fn object<const N: usize>(properties: [(&str, Property); N]) -> Schema {
    let properties = properties.into_iter().map(|(name, property)| (name.into(), property)).collect();
    Schema {
        kind: SchemaType::Object(ObjectSchema { properties, ..ObjectSchema::default() }),
        ..Schema::default()
    }
}

/// Returns an atomic list.
pub(crate) fn list_of(item: Property) -> Property {
    field(Schema { kind: SchemaType::Array(item), ..Schema::default() })
}

/// Returns a list of objects identified by these keys; strategic merge uses the first one.
pub(crate) fn list_map(item: Schema, keys: &[&str]) -> Property {
    let mut list = list_of(field(item));
    list.merge.list = ListType::Map(keys.iter().map(|key| (*key).into()).collect());
    list.merge.patch.merge = true;
    list.merge.patch_key = Some(keys[0].into());
    list
}

/// Returns a set of scalars.
pub(crate) fn set_of(item: Property) -> Property {
    let mut list = list_of(item);
    list.merge.list = ListType::Set;
    list
}

/// Returns a whole number.
pub(crate) fn number() -> Property {
    of_kind(SchemaType::Integer(IntegerWidth::Int64))
}

/// Returns a scalar of this kind.
pub(crate) fn of_kind(kind: SchemaType) -> Property {
    field(Schema { kind, ..Schema::default() })
}

/// Returns a map with values like this.
pub(crate) fn map_of(value: Property) -> Property {
    let object = ObjectSchema { additional: Some(Box::new(value)), ..ObjectSchema::default() };
    of_kind(SchemaType::Object(object))
}

/// Returns a custom kind whose spec has one field of every kind.
pub(crate) fn widget() -> Schema {
    let mut proto = text();
    proto.schema =
        Schema { kind: SchemaType::String("".into()), default: Some(json!("TCP")), ..Schema::default() }
            .into();
    let multi = object([("port", number()), ("proto", proto), ("v", text())]);
    let mut atomic_map = field(object([("a", text()), ("b", text())]));
    atomic_map.merge.atomic_map = true;
    let nested = list_map(
        object([
            ("name", text()),
            ("env", list_map(object([("name", text()), ("value", text())]), &["name"])),
        ]),
        &["name"],
    );
    let spec = object([
        ("num", number()),
        ("flag", of_kind(SchemaType::Boolean)),
        ("port", of_kind(SchemaType::IntOrString)),
        ("quantity", of_kind(SchemaType::String("quantity".into()))),
        ("set", set_of(text())),
        ("map", list_map(object([("k", text()), ("v", text())]), &["k"])),
        ("multi", list_map(multi, &["port", "proto"])),
        ("nested", nested),
        ("atomic", list_of(text())),
        ("plain", list_of(text())),
        ("atomicMap", atomic_map),
        ("granular", field(object([("a", text()), ("b", text())]))),
        ("free", map_of(text())),
        ("any", field(Schema::default())),
    ]);
    object([("spec", field(spec)), ("status", field(object([("phase", text())])))])
}
