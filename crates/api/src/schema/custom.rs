//! Converts the `openAPIV3Schema` of a definition into a [`Schema`], with the value constraints at the root.
//!
//! The root and embedded resources always get `apiVersion`, `kind` and `metadata`, as Kubernetes implies them.
//! Definitions are validated earlier: an invalid schema is parsed leniently here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraints::ValueConstraints;
use super::{
    IntegerWidth, ListType, MergeRules, ObjectSchema, Presence, Property, Schema, SchemaRef, SchemaType,
    object_meta,
};

/// Returns the schema of a custom kind.
pub fn custom(json: &Value) -> Arc<Schema> {
    let mut root = node(json);
    imply_meta(&mut root);
    root.rules = Some(Box::new(ValueConstraints::read(json)));
    Arc::new(root)
}

/// Converts one node and everything below it, without constraints.
pub(super) fn node(json: &Value) -> Schema {
    let is = |name: &str| json[name] == true;
    let mut schema = Schema {
        kind: kind(json),
        nullable: is("nullable"),
        default: json.get("default").cloned(),
        preserve_unknown: is("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: is("x-kubernetes-embedded-resource"),
        rules: None,
    };
    if schema.embedded_resource {
        imply_meta(&mut schema);
    }
    schema
}

fn kind(json: &Value) -> SchemaType {
    if json["x-kubernetes-int-or-string"] == true {
        return SchemaType::IntOrString;
    }
    let format = json["format"].as_str().unwrap_or_default();
    match json["type"].as_str().unwrap_or_default() {
        "object" => SchemaType::Object(object(json)),
        "array" => SchemaType::Array(place(&json["items"])),
        "string" => SchemaType::String(format.into()),
        "integer" if format == "int32" => SchemaType::Integer(IntegerWidth::Int32),
        "integer" => SchemaType::Integer(IntegerWidth::Int64),
        "number" => SchemaType::Number,
        "boolean" => SchemaType::Boolean,
        _ if json["properties"].is_object() || json["additionalProperties"].is_object() => {
            SchemaType::Object(object(json))
        }
        _ => SchemaType::Any,
    }
}

fn object(json: &Value) -> ObjectSchema {
    let fields = json["properties"].as_object().into_iter().flat_map(Map::iter);
    let additional = match &json["additionalProperties"] {
        Value::Object(_) => Some(Box::new(place(&json["additionalProperties"]))),
        Value::Bool(true) => Some(Box::new(Property::new(Schema::default()))),
        _ => None,
    };
    let required = json["required"].as_array().into_iter().flatten();
    let properties: BTreeMap<Box<str>, _> =
        fields.map(|(name, schema)| (name.as_str().into(), place(schema))).collect();
    let defaulted =
        properties.iter().filter(|(_, property): &(_, &Property)| property.schema.default.is_some());
    ObjectSchema {
        defaulted: defaulted.map(|(name, _)| name.clone()).collect(),
        properties,
        additional,
        required: required.filter_map(|name| name.as_str().map(Into::into)).collect(),
    }
}

fn place(json: &Value) -> Property {
    Property { schema: node(json).into(), merge: merge(json), presence: Presence::Optional }
}

fn merge(json: &Value) -> MergeRules {
    let list = match json["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = json["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListType::Map(keys.filter_map(|key| key.as_str().map(Into::into)).collect())
        }
        _ => ListType::Atomic,
    };
    MergeRules { list, atomic_map: json["x-kubernetes-map-type"] == "atomic", ..MergeRules::default() }
}

fn imply_meta(schema: &mut Schema) {
    if !matches!(schema.kind, SchemaType::Object(_)) {
        schema.kind = SchemaType::Object(ObjectSchema::default());
    }
    let SchemaType::Object(object) = &mut schema.kind else { return };
    let text = || Property::new(Schema { kind: SchemaType::String("".into()), ..Schema::default() });
    object.properties.insert("apiVersion".into(), text());
    object.properties.insert("kind".into(), text());
    object.properties.insert("metadata".into(), Property::new(SchemaRef::clone(object_meta())));
}
