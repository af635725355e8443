//! Generates the steps of a user from the schema of a definition: changes every field of a spec once to a value that
//! the schema allows and once to one that it forbids, and back each time.

use serde_json::{Map, Value, json};

/// The maximum number of variations of one object. Each adds two steps to the scenario.
const VARIATIONS_MAX: usize = 8;

/// The maximum depth of the fields that are varied.
const DEPTH_MAX: usize = 3;

/// A changed spec of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variation {
    /// The changed field and its value: `spec.count: 2`.
    pub(crate) text: String,
    pub(crate) spec: Value,
}

/// Returns variations of a spec according to the schema of its definition, the valid ones first.
pub(crate) fn variations(schema: &Value, spec: &Value) -> Vec<Variation> {
    let mut fields = Vec::new();
    collect_fields(&schema["properties"]["spec"], &mut Vec::new(), &mut fields);
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for (path, schema) in &fields {
        let present = path.iter().fold(spec, |value, name| &value[name.as_str()]);
        valid.extend(allowed_value(schema, present).map(|value| vary(spec, path, value)));
        invalid.extend(forbidden_value(schema).map(|value| vary(spec, path, value)));
    }
    let forbidden = invalid.len().min(VARIATIONS_MAX / 4);
    valid.truncate(VARIATIONS_MAX - forbidden);
    invalid.truncate(VARIATIONS_MAX - valid.len());
    valid.into_iter().chain(invalid).collect()
}

/// Collects the fields with a single value.
fn collect_fields<'a>(schema: &'a Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, &'a Value)>) {
    match schema["properties"].as_object() {
        Some(properties) if path.len() < DEPTH_MAX => {
            for (name, schema) in properties {
                path.push(name.clone());
                collect_fields(schema, path, found);
                path.pop();
            }
        }
        _ if !path.is_empty() => found.push((path.clone(), schema)),
        _ => {}
    }
}

/// Returns another value that the schema allows, if one is easily found.
fn allowed_value(schema: &Value, present: &Value) -> Option<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().find(|value| *value != present && !value.is_null()).cloned();
    }
    match schema["type"].as_str()? {
        "boolean" => Some(json!(!present.as_bool().unwrap_or_default())),
        "integer" | "number" => {
            let present = present.as_i64().or_else(|| schema["minimum"].as_i64()).unwrap_or_default();
            let is_allowed = |value: &i64| {
                schema["minimum"].as_f64().is_none_or(|min| as_float(*value) >= min)
                    && schema["maximum"].as_f64().is_none_or(|max| as_float(*value) <= max)
            };
            [present + 1, present - 1].into_iter().find(is_allowed).map(Value::from)
        }
        "string" if schema["pattern"].is_null() && schema["format"].is_null() => {
            let present = present.as_str().unwrap_or_default();
            let longer = format!("{present}x");
            let fits = schema["maxLength"].as_u64().is_none_or(|max| longer.chars().count() as u64 <= max);
            let shorter: String = present.chars().skip(1).collect();
            Some(json!(if fits { longer } else { shorter }))
        }
        "array" => {
            let is_empty = present.as_array().is_none_or(Vec::is_empty);
            (!is_empty && schema["minItems"].is_null()).then(|| json!([]))
        }
        _ => None,
    }
}

/// Returns a value that the schema forbids, if there is one.
fn forbidden_value(schema: &Value) -> Option<Value> {
    if schema["enum"].is_array() {
        return Some(json!("no-such-value"));
    }
    match schema["type"].as_str()? {
        "integer" | "number" => {
            let below = schema["minimum"].as_i64().map(|min| min - 1);
            below.or_else(|| schema["maximum"].as_i64().map(|max| max + 1)).map(Value::from)
        }
        "boolean" => Some(json!("neither")),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "bounds of fields are small numbers")]
fn as_float(value: i64) -> f64 {
    value as f64
}

fn vary(spec: &Value, path: &[String], value: Value) -> Variation {
    let text = format!("spec.{}: {value}", path.join("."));
    let mut varied = spec.clone();
    let mut place = &mut varied;
    for name in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name.as_str()];
    }
    *place = value;
    Variation { text, spec: varied }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_varied() {
        let schema = json!({"properties": {"spec": {"properties": {
            "count": {"type": "integer", "minimum": 0, "maximum": 3},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "inner": {"type": "object", "properties": {"on": {"type": "boolean"}}},
            "text": {"type": "string"},
            "time": {"type": "string", "format": "date-time"},
        }}}});
        let spec = json!({"count": 3, "mode": "a", "text": "t"});
        let texts: Vec<String> = variations(&schema, &spec).into_iter().map(|one| one.text).collect();
        let expected = [
            "spec.count: 2",
            "spec.inner.on: true",
            "spec.mode: \"b\"",
            "spec.text: \"tx\"",
            "spec.count: -1",
            "spec.inner.on: \"neither\"",
            "spec.mode: \"no-such-value\"",
        ];
        assert_eq!(texts, expected);
    }
}
