//! Fills in the defaults a custom kind's schema states, and drops nulls nobody may write.
//!
//! A null counts as absent unless its place is nullable: it becomes the default, or disappears. Metadata has no
//! defaults. Built-in kinds get theirs from code, not from here.

use serde_json::{Map, Value};

use super::{Kind, Object, Schema};

/// Fills in defaults, from the outside inward: a default may itself be completed.
pub fn default(schema: &Schema, value: &mut Value) {
    match (&schema.kind, value) {
        (Kind::Object(object), Value::Object(fields)) => default_fields(object, fields),
        (Kind::Array(items), Value::Array(elements)) => {
            for element in elements {
                replace_null(&items.schema, element);
                default(&items.schema, element);
            }
        }
        _ => {}
    }
}

fn default_fields(object: &Object, fields: &mut Map<String, Value>) {
    for (name, property) in &object.properties {
        let Some(default) = &property.schema.default else { continue };
        match fields.get_mut(&**name) {
            None => {
                fields.insert(name.to_string(), default.clone());
            }
            Some(value) => replace_null(&property.schema, value),
        }
    }
    fields.retain(|name, value| {
        let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref()) else {
            return true;
        };
        replace_null(&property.schema, value);
        if value.is_null() {
            return may_be_null(&property.schema);
        }
        default(&property.schema, value);
        true
    });
}

/// Drops the nulls nobody may write and no default will replace.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    match (&schema.kind, value) {
        (Kind::Object(object), Value::Object(fields)) => fields.retain(|name, value| {
            let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref()) else {
                return true;
            };
            if value.is_null() {
                return may_be_null(&property.schema) || property.schema.default.is_some();
            }
            drop_nulls(&property.schema, value);
            true
        }),
        (Kind::Array(items), Value::Array(elements)) => {
            for element in elements {
                drop_nulls(&items.schema, element);
            }
        }
        _ => {}
    }
}

/// Untyped maps (`additionalProperties: true`) keep their nulls.
fn may_be_null(schema: &Schema) -> bool {
    schema.nullable || matches!(schema.kind, Kind::Any) && !schema.preserve_unknown
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::custom;

    #[track_caller]
    fn check(spec: &Value, given: &Value, expected: &Value) {
        let schema = custom(&json!({"type": "object", "properties": {"spec": spec}}));
        let mut value = given.clone();
        default(&schema, &mut value);
        assert_eq!(&value, expected);
    }

    #[test]
    fn defaults_fill_what_is_absent_or_null() {
        let spec = json!({"type": "object", "properties": {
            "s": {"type": "string", "default": "d"},
            "n": {"type": "integer", "default": 3},
            "o": {"type": "object", "default": {}, "properties": {"in": {"type": "string", "default": "x"}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "default": 1}}}},
            "nodef": {"type": "string"},
            "nn": {"type": "string", "nullable": true, "default": "nd"},
            "deep": {"type": "object", "properties": {"in": {"type": "string", "default": "y"}}}}});
        check(
            &spec,
            &json!({"spec": {}}),
            &json!({"spec": {"n": 3, "nn": "nd", "o": {"in": "x"}, "s": "d"}}),
        );
        check(&spec, &json!({}), &json!({}));
        check(
            &spec,
            &json!({"spec": {"s": "mine", "o": {}, "l": [{"k": "1"}, {"k": "2", "v": 9}], "deep": {}}}),
            &json!({"spec": {"deep": {"in": "y"}, "l": [{"k": "1", "v": 1}, {"k": "2", "v": 9}], "n": 3, "nn": "nd",
                "o": {"in": "x"}, "s": "mine"}}),
        );
        check(
            &spec,
            &json!({"spec": {"s": null, "nn": null, "o": null, "nodef": null}}),
            &json!({"spec": {"n": 3, "nn": null, "o": {"in": "x"}, "s": "d"}}),
        );
    }

    #[test]
    fn a_default_for_the_whole_cascades_inward() {
        let spec = json!({"type": "object", "default": {}, "properties": {
            "mode": {"type": "string", "default": "auto"},
            "map": {"type": "object", "default": {"a": "1"}, "additionalProperties": {"type": "string"}}}});
        check(&spec, &json!({}), &json!({"spec": {"map": {"a": "1"}, "mode": "auto"}}));
        check(&spec, &json!({"spec": null}), &json!({"spec": {"map": {"a": "1"}, "mode": "auto"}}));
        check(&spec, &json!({"spec": {"map": {}}}), &json!({"spec": {"map": {}, "mode": "auto"}}));
    }

    #[test]
    fn nulls_stay_where_they_are_allowed() {
        let spec = json!({"type": "object", "properties": {
            "n": {"type": "string", "nullable": true}, "p": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string", "nullable": true}}}});
        check(
            &spec,
            &json!({"spec": {"n": null, "p": null, "l": ["a", null]}}),
            &json!({"spec": {"n": null, "l": ["a", null]}}),
        );
    }

    #[test]
    fn nulls_go_where_no_default_waits() {
        let schema = custom(&json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "may": {"type": "string", "nullable": true},
            "waits": {"type": "string", "default": "d"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"plain": {"type": "string"}}}}}}));
        let mut value = json!({"plain": null, "may": null, "waits": null, "list": [{"plain": null}]});
        drop_nulls(&schema, &mut value);
        assert_eq!(value, json!({"may": null, "waits": null, "list": [{}]}));
    }
}
