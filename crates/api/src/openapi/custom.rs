//! The schemas of custom kinds, as given in their definitions, with the fields that every object has. They are reduced
//! for version 2, which can express less than version 3.

use serde_json::{Map, Value, json};

use super::components::{OBJECT_META, PREFIX, for_each_below};
use crate::resource::CustomKind;

/// Keywords that version 2 does not have.
const UNKNOWN_IN_V2: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "nullable"];

/// Returns a name such as `com.example.v1.Foo`: the group is reversed, so that the schemas of one domain are listed
/// together.
pub(super) fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let reversed = group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{reversed}.{version}.{kind}")
}

/// Returns the version 3 schema.
pub(super) fn v3(custom: &CustomKind) -> Value {
    let Value::Object(_) = &custom.raw_schema else { return json!({ "type": "object" }) };
    let mut schema = custom.raw_schema.clone();
    add_embedded(&mut schema, false);
    finish(&mut schema, custom);
    schema
}

/// Returns the version 2 schema, still with version 3 references. An object that preserves unknown fields must not list
/// the known ones, because clients would reject all others.
pub(super) fn v2(custom: &CustomKind) -> Value {
    let Value::Object(raw) = &custom.raw_schema else { return json!({ "type": "object" }) };
    if keeps_unknown(raw) {
        return json!({ "type": "object" });
    }
    let mut schema = custom.raw_schema.clone();
    reduce(&mut schema);
    add_embedded(&mut schema, true);
    finish(&mut schema, custom);
    schema
}

/// Adds the fields that every object has.
fn finish(schema: &mut Value, custom: &CustomKind) {
    schema["properties"]["metadata"] = metadata();
    add_type_meta(schema);
    if !custom.selectable_fields.is_empty() {
        let fields: Vec<_> =
            custom.selectable_fields.iter().map(|path| json!({ "fieldPath": path })).collect();
        schema["x-kubernetes-selectable-fields"] = fields.into();
    }
}

fn metadata() -> Value {
    json!({
        "description": "Standard object's metadata.",
        "allOf": [{ "$ref": format!("{PREFIX}{OBJECT_META}") }],
    })
}

/// Adds `apiVersion` and `kind`.
pub(super) fn add_type_meta(schema: &mut Value) {
    schema["properties"]["apiVersion"] = json!({
        "description": "APIVersion defines the group and version of the schema this object follows.",
        "type": "string",
    });
    schema["properties"]["kind"] =
        json!({ "description": "Kind says what this object is, in CamelCase.", "type": "string" });
}

/// Adds type and metadata to embedded objects. In version 2, embedded objects that preserve unknown fields list none.
fn add_embedded(schema: &mut Value, is_v2: bool) {
    let Value::Object(map) = schema else { return };
    for_each_below(map, &mut |below| add_embedded(below, is_v2));
    if map.get("x-kubernetes-embedded-resource") != Some(&Value::Bool(true)) || (is_v2 && keeps_unknown(map))
    {
        return;
    }
    add_type_meta(schema);
    schema["properties"]["metadata"] = metadata();
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.contains(&name.into()) {
            required.push(name.into());
        }
    }
    schema["required"] = required.into();
}

/// Removes everything that version 2 cannot express, so that clients reject nothing that the server would accept.
fn reduce(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let is_nullable = map.get("nullable") == Some(&Value::Bool(true));
    for key in UNKNOWN_IN_V2 {
        map.remove(key);
    }
    if is_nullable {
        forget(map, &["type", "items", "properties"]);
    }
    let is_of_type =
        |map: &Map<String, Value>, kind: &str| map.get("type").is_some_and(|found| found == kind);
    if keeps_unknown(map) {
        forget(map, &["items", "properties"]);
        if is_of_type(map, "object") {
            map.remove("type");
        }
    }
    if is_of_type(map, "array") && !map.contains_key("items") {
        map.remove("type");
    }
    forget_nullable_requirements(map);
    for_each_below(map, &mut reduce);
}

/// Removes nullable fields from the required ones: a client would demand a value where null is allowed.
fn forget_nullable_requirements(map: &mut Map<String, Value>) {
    let is_nullable = |schema: &Value| schema["nullable"] == Value::Bool(true);
    let properties = map.get("properties").cloned().unwrap_or_default();
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !is_nullable(&properties[name])));
    }
    let is_empty = map.get("required").is_some_and(|required| *required == json!([]));
    if is_empty || map.get("additionalProperties").is_some_and(is_nullable) {
        map.remove("required");
    }
}

fn forget(map: &mut Map<String, Value>, keys: &[&str]) {
    map.retain(|key, _| !keys.contains(&&**key));
}

fn keeps_unknown(map: &Map<String, Value>) -> bool {
    map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(raw_schema: Value) -> CustomKind {
        CustomKind { raw_schema, storage_version: "v1".into(), ..CustomKind::default() }
    }

    #[test]
    fn a_custom_schema_is_published_as_recorded() {
        let spec = json!({"type": "object", "required": ["size"], "properties": {
            "mode": {"type": "string", "default": "a", "enum": ["a", "b"]},
            "size": {"description": "how big", "type": "integer", "minimum": 1}}});
        let schema = v3(&custom(json!({"type": "object", "properties": {"spec": spec}})));
        assert_eq!(schema["properties"]["spec"], spec);
        assert_eq!(schema["properties"]["kind"]["type"], "string");
        assert_eq!(schema_name("id.oracle.test", "v1", "Widget"), "test.oracle.id.v1.Widget");
    }

    #[test]
    fn no_schema_says_no_more_than_that_it_is_an_object() {
        assert_eq!(v3(&custom(Value::Null)), json!({"type": "object"}));
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(v2(&custom(open.clone())), json!({"type": "object"}));
        assert!(v3(&custom(open))["properties"].get("metadata").is_some());
    }

    #[test]
    fn version_2_refuses_nothing_the_server_takes() {
        let raw = json!({"type": "object", "required": ["n", "o"], "properties": {
            "n": {"type": "string", "nullable": true},
            "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}},
            "l": {"type": "array"},
            "x": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}});
        let schema = v2(&custom(raw));
        let properties = &schema["properties"];
        assert_eq!((&properties["n"], &properties["l"]), (&json!({}), &json!({})));
        assert_eq!(properties["o"], json!({"x-kubernetes-preserve-unknown-fields": true}));
        assert_eq!(properties["x"], json!({"x-kubernetes-int-or-string": true}));
        assert_eq!(schema["required"], json!(["o"]));
    }
}
