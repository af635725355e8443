//! Resolves the schema of a kind into one piece, to type-check policies: references are replaced by the types they
//! refer to.
//!
//! A type that contains itself becomes an empty object, as in Kubernetes. Quantities have no type there (they are a
//! string or a number), so rules cannot see them.

use serde_json::{Map, Value, json};

use crate::schema::type_lines;

/// The type that Kubernetes declares as a choice between types, which CEL does not see.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Returns the schema of a built-in kind.
pub(super) fn built_in_schema(group: &str, version: &str, kind: &str) -> Option<Value> {
    let at = type_lines::position_of_kind(group, version, kind)?;
    let types = type_lines::closure([at]);
    let name = type_lines::types()[at].name;
    Some(resolved(types.get(name)?, &types, &mut vec![name]))
}

/// Returns the schema of a custom kind, with the metadata that its definition leaves implicit.
pub(super) fn custom_schema(schema: &Value) -> Value {
    let metadata = built_in_schema("", "v1", "ObjectMeta").unwrap_or_default();
    let mut schema = if schema.is_object() { schema.clone() } else { json!({"type": "object"}) };
    complete_objects(&mut schema, &metadata);
    complete(&mut schema, &metadata);
    schema
}

/// Returns the name of the type that a schema refers to, possibly through `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let wrapped = || schema["allOf"].as_array()?.iter().find_map(reference);
    schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).or_else(wrapped)
}

/// Returns a schema without references. `within` lists the enclosing types.
fn resolved<'a>(schema: &'a Value, types: &'a Map<String, Value>, within: &mut Vec<&'a str>) -> Value {
    let Some(name) = reference(schema) else { return with_resolved_parts(schema, types, within) };
    if name == QUANTITY {
        return json!({});
    }
    let Some(target) = types.get(name).filter(|_| !within.contains(&name)) else {
        return json!({"type": "object"});
    };
    within.push(name);
    let found = with_resolved_parts(target, types, within);
    within.pop();
    found
}

fn with_resolved_parts<'a>(
    schema: &'a Value,
    types: &'a Map<String, Value>,
    within: &mut Vec<&'a str>,
) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let parts = fields.iter().filter(|(name, _)| *name != "description").map(|(name, value)| {
        let value = match (&**name, value) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter();
                properties.map(|(name, schema)| (name.clone(), resolved(schema, types, within))).collect()
            }
            ("items" | "additionalProperties", schema) => resolved(schema, types, within),
            (_, other) => other.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(parts.collect())
}

/// Adds the fields that every object has to the embedded objects of a schema.
fn complete_objects(schema: &mut Value, metadata: &Value) {
    let Value::Object(fields) = schema else { return };
    for part in ["items", "additionalProperties"] {
        if let Some(part) = fields.get_mut(part) {
            complete_objects(part, metadata);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|property| complete_objects(property, metadata));
    }
    if schema[EMBEDDED] == true {
        complete(schema, metadata);
    }
}

fn complete(schema: &mut Value, metadata: &Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = metadata.clone();
}
