//! Fills in the defaults of a custom kind's schema, and drops nulls that are not allowed.
//!
//! A null counts as absent unless its field is nullable: it becomes the default, or is removed. Metadata has no
//! defaults. The defaults of built-in kinds are implemented in code, not here.
//!
//! **Invariant:** defaults make an object larger by at most `ADDED_BYTES_MAX`. Otherwise a large default for the items
//! of a list would turn a small body into gigabytes, and again whenever an older object is read.

use serde_json::{Map, Value};

use super::{ObjectSchema, Schema, SchemaType};
use crate::object::memory::{MEMORY_MAX, MemoryBudget, MemoryBudgetExceeded};

/// The maximum memory that defaults may add to one object: as much as a large object itself takes.
const ADDED_BYTES_MAX: usize = MEMORY_MAX / 2;

/// Defaults would make the object too large; those that fit into the budget are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl From<MemoryBudgetExceeded> for TooLarge {
    fn from(_: MemoryBudgetExceeded) -> Self {
        Self
    }
}

/// Fills in defaults, from the outside in: a default may itself get defaults.
///
/// # Errors
/// Fails if the defaults would make the object too large.
pub fn default(schema: &Schema, value: &mut Value) -> Result<(), TooLarge> {
    DefaultFiller { room: MemoryBudget::new(ADDED_BYTES_MAX) }.value(schema, value)
}

struct DefaultFiller {
    room: MemoryBudget,
}

impl DefaultFiller {
    fn value(&self, schema: &Schema, value: &mut Value) -> Result<(), TooLarge> {
        match (&schema.kind, value) {
            (SchemaType::Object(object), Value::Object(fields)) => self.fields(object, fields),
            (SchemaType::Array(items), Value::Array(elements)) => {
                elements.iter_mut().try_for_each(|element| {
                    self.replace_null(&items.schema, element)?;
                    self.value(&items.schema, element)
                })
            }
            _ => Ok(()),
        }
    }

    fn fields(&self, object: &ObjectSchema, fields: &mut Map<String, Value>) -> Result<(), TooLarge> {
        for name in &object.defaulted {
            if !fields.contains_key(&**name)
                && let Some(default) = &object.properties[name].schema.default
            {
                self.room.entry(name, fields.len())?;
                self.room.whole(default)?;
                fields.insert(name.to_string(), default.clone());
            }
        }
        let mut outcome = Ok(());
        fields.retain(|name, value| {
            let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref()) else {
                return true;
            };
            if outcome.is_ok() {
                outcome = self.replace_null(&property.schema, value);
            }
            if value.is_null() {
                return may_be_null(&property.schema);
            }
            if outcome.is_ok() {
                outcome = self.value(&property.schema, value);
            }
            true
        });
        outcome
    }

    fn replace_null(&self, schema: &Schema, value: &mut Value) -> Result<(), TooLarge> {
        if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
            self.room.whole(default)?;
            *value = default.clone();
        }
        Ok(())
    }
}

/// Drops nulls that are not allowed and that no default will replace.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    match (&schema.kind, value) {
        (SchemaType::Object(object), Value::Object(fields)) => fields.retain(|name, value| {
            let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref()) else {
                return true;
            };
            if value.is_null() {
                return may_be_null(&property.schema) || property.schema.default.is_some();
            }
            drop_nulls(&property.schema, value);
            true
        }),
        (SchemaType::Array(items), Value::Array(elements)) => {
            for element in elements {
                drop_nulls(&items.schema, element);
            }
        }
        _ => {}
    }
}

/// Returns whether null is allowed: untyped maps (`additionalProperties: true`) keep their nulls.
fn may_be_null(schema: &Schema) -> bool {
    schema.nullable || matches!(schema.kind, SchemaType::Any) && !schema.preserve_unknown
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
        assert_eq!(default(&schema, &mut value), Ok(()));
        assert_eq!(&value, expected);
    }

    #[test]
    fn a_large_default_for_many_items_is_refused() {
        let schema = custom(&json!({"type": "object", "properties": {"spec": {"type": "array", "items": {
            "type": "object", "properties": {"large": {"type": "string", "default": "x".repeat(500_000)}}}}}}));
        let mut some = json!({"spec": vec![json!({}); 10]});
        assert_eq!(default(&schema, &mut some), Ok(()));
        let mut many = json!({"spec": vec![json!({}); 100_000]});
        assert_eq!(default(&schema, &mut many), Err(TooLarge));
        assert!(crate::object::memory::memory_of(&many) < 2 * MEMORY_MAX);
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
