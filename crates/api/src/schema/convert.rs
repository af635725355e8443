//! Converts a JSON schema of the typed API crate into a [`Schema`]. It never fails: a schema it does not know becomes
//! [`SchemaType::Any`].

use serde_json::Value;

use super::built_in::intern;
use super::facts::TypeFacts;
use super::{IntegerWidth, ObjectSchema, Presence, Property, Schema, SchemaRef, SchemaType};

/// Types whose JSON is determined by code in Kubernetes rather than by their fields.
const SPECIAL: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "date-time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "micro-time"),
];

/// Types that hold arbitrary JSON; the generator shows them as objects without fields.
const RAW: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

/// Fields that identify list elements even though they may be absent: server-side apply needs their defaults.
const KEY_DEFAULTS: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.ContainerPort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.ServicePort", "protocol", "TCP"),
];

/// Returns the schema of the built-in type `owner`.
pub(super) fn built_in(owner: &str, json: &Value, facts: &TypeFacts) -> Schema {
    let kind = match SPECIAL.iter().find(|(name, _)| *name == owner) {
        Some((_, format)) => SchemaType::String((*format).into()),
        None if RAW.contains(&owner) => SchemaType::Any,
        None => kind(owner, json, facts),
    };
    Schema { kind, ..Schema::default() }
}

fn kind(owner: &str, json: &Value, facts: &TypeFacts) -> SchemaType {
    if json["x-kubernetes-int-or-string"] == Value::Bool(true) {
        return SchemaType::IntOrString;
    }
    let format = json["format"].as_str().unwrap_or_default();
    match json["type"].as_str() {
        Some("object") => object(owner, json, facts),
        Some("array") => SchemaType::Array(place(owner, "", &json["items"], facts)),
        Some("string") => SchemaType::String(format.into()),
        Some("integer") if format == "int32" => SchemaType::Integer(IntegerWidth::Int32),
        Some("integer") => SchemaType::Integer(IntegerWidth::Int64),
        Some("number") => SchemaType::Number,
        Some("boolean") => SchemaType::Boolean,
        _ => SchemaType::Any,
    }
}

fn object(owner: &str, json: &Value, facts: &TypeFacts) -> SchemaType {
    let mut object = ObjectSchema::default();
    if let Some(fields) = json["properties"].as_object() {
        for (name, field) in fields {
            let mut property = place(owner, name, field, facts);
            property.presence = facts.presence(owner, name);
            object.properties.insert(name.as_str().into(), property);
        }
    }
    if json["additionalProperties"].is_object() {
        let values = place(owner, "", &json["additionalProperties"], facts);
        object.additional = Some(Box::new(values));
    }
    let required = json["required"].as_array().into_iter().flatten();
    object.required = required.filter_map(|name| name.as_str().map(Into::into)).collect();
    SchemaType::Object(object)
}

/// Converts a field, or (without a name) the items or values of one, which merge according to their type.
fn place(owner: &str, field: &str, json: &Value, facts: &TypeFacts) -> Property {
    let target = json["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let in_place =
        || Schema { kind: kind(owner, json, facts), default: key_default(owner, field), ..Schema::default() };
    let schema = target.map_or_else(|| in_place().into(), |name| SchemaRef::Named(intern(name)));
    let merge =
        if field.is_empty() { facts.merge("", "", target) } else { facts.merge(owner, field, target) };
    Property { schema, merge, presence: Presence::Optional }
}

fn key_default(owner: &str, field: &str) -> Option<Value> {
    KEY_DEFAULTS.iter().find(|row| (row.0, row.1) == (owner, field)).map(|row| row.2.into())
}
