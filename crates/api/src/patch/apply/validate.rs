//! Checks that an applied configuration fits the schema, with the Go library's messages, which clients show.
//!
//! **Invariant:** null fits everywhere. Only types, undeclared fields and the keys of list elements are checked;
//! values are validated elsewhere.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value;

use super::path_step;
use super::schema_position::SchemaPosition;
use crate::field::BoundedTexts;
use crate::patch::go_format::{self, GoPrinted};
use crate::schema::{ListType, SchemaType};

/// Rejects a configuration that does not fit the schema; the error has one line per path.
pub(super) fn validate(object: &Value, root: SchemaPosition<'_>) -> Result<(), String> {
    let mut errors = BoundedTexts::new();
    if object.is_object() {
        check_fields(object, root, &mut String::new(), &mut errors);
    }
    match &*errors {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn check(value: &Value, place: SchemaPosition<'_>, path: &mut String, errors: &mut BoundedTexts) {
    let Some(schema) = place.schema else { return };
    if value.is_null() || errors.is_full() {
        return;
    }
    let wrong = match (&schema.kind, value) {
        (SchemaType::Any, _) => return,
        (SchemaType::Object(_), Value::Object(_)) => return check_fields(value, place, path, errors),
        (SchemaType::Array(_), Value::Array(items)) => return check_items(items, place, path, errors),
        (SchemaType::Object(_), _) => format!("expected map, got &{{{}}}", GoPrinted(value)),
        (SchemaType::Array(_), _) => format!("expected list, got &{{{}}}", GoPrinted(value)),
        (kind, _) => match scalar_mismatch(kind, value) {
            Some(wrong) => wrong,
            None => return,
        },
    };
    errors.push_with(|| located(path, &wrong));
}

fn located(path: &str, wrong: &str) -> String {
    if path.is_empty() { wrong.to_owned() } else { format!("{path}: {wrong}") }
}

fn scalar_mismatch(kind: &SchemaType, value: &Value) -> Option<String> {
    let is_scalar = !value.is_object() && !value.is_array();
    match kind {
        SchemaType::IntOrString => {
            (!is_scalar).then(|| format!("expected any scalar, got &{{{}}}", GoPrinted(value)))
        }
        SchemaType::String(format) if &**format == "quantity" => {
            scalar_mismatch(&SchemaType::IntOrString, value)
        }
        SchemaType::String(_) => {
            let syntax = || {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_format::syntax(value))
            };
            (!value.is_string()).then(syntax)
        }
        SchemaType::Integer(_) | SchemaType::Number => {
            let found = go_format::type_of(value);
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {found}"))
        }
        SchemaType::Boolean => {
            (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", GoPrinted(value)))
        }
        SchemaType::Any | SchemaType::Object(_) | SchemaType::Array(_) => None,
    }
}

/// Checks the fields of a map. As in the library, the first undeclared field ends the check of this map.
fn check_fields(value: &Value, place: SchemaPosition<'_>, path: &mut String, errors: &mut BoundedTexts) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let length = path.len();
        write!(path, ".{name}").expect("writing to a string");
        let declared = place.declared_field(name);
        match declared {
            Some(below) => check(value, below, path, errors),
            None => errors.push_with(|| located(path, "field not declared in schema")),
        }
        path.truncate(length);
        if declared.is_none() {
            return;
        }
    }
}

fn check_items(items: &[Value], place: SchemaPosition<'_>, path: &mut String, errors: &mut BoundedTexts) {
    let mut seen = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let step =
            if place.list_type() == &ListType::Atomic { Ok(format!("i:{at}")) } else { place.step(item) };
        let step = match step {
            Ok(step) => step,
            Err(why) => return errors.push_with(|| located(path, &format!("element {at}: {why}"))),
        };
        let shown = path_step::shown(&step);
        if !seen.insert(step) {
            errors.push_with(|| located(path, &format!("duplicate entries for key {shown}")));
        }
        let length = path.len();
        path.push_str(&shown);
        check(item, place.item(), path, errors);
        path.truncate(length);
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::patch::test_schemas::widget;

    #[track_caller]
    fn check_spec(spec: Value, expected: Result<(), &str>) {
        let schema = widget();
        let object = json!({"apiVersion": "v1", "kind": "W", "metadata": {"name": "a"}, "spec": spec});
        let found = validate(&object, SchemaPosition::root(Some(&schema)));
        assert_eq!(found, expected.map_err(str::to_owned), "{spec}");
    }

    #[test]
    fn what_fits() {
        check_spec(
            json!({"num": 1, "set": ["x"], "map": [{"k": "a"}], "multi": [{"port": 1}], "flag": true}),
            Ok(()),
        );
        check_spec(json!({"num": null, "set": null, "map": null, "granular": null}), Ok(()));
        check_spec(
            json!({"any": {"x": [1, {"y": 2}]}, "free": {"x": "1"}, "quantity": 1, "port": "http"}),
            Ok(()),
        );
        check_spec(json!({"plain": ["a", "a"]}), Ok(()));
    }

    #[test]
    fn what_does_not_fit() {
        let rows = [
            (json!({"num": "text"}), ".spec.num: expected numeric (int or float), got string"),
            (json!({"num": {}}), ".spec.num: expected numeric (int or float), got map[string]interface {}"),
            (json!({"unknown": 1}), ".spec.unknown: field not declared in schema"),
            (json!({"map": {"k": "x"}}), ".spec.map: expected list, got &{map[k:x]}"),
            (json!({"granular": "x"}), ".spec.granular: expected map, got &{x}"),
            (
                json!({"free": {"k": 1}}),
                ".spec.free.k: expected string, got &value.valueUnstructured{Value:1}",
            ),
            (json!({"flag": "x"}), ".spec.flag: expected boolean, got &{x}"),
            (json!({"port": [1]}), ".spec.port: expected any scalar, got &{[1]}"),
            (json!({"plain": [1]}), ".spec.plain[0]: expected string, got &value.valueUnstructured{Value:1}"),
            (json!({"set": ["x", "x"]}), r#".spec.set: duplicate entries for key [="x"]"#),
            (
                json!({"set": [{}]}),
                ".spec.set: element 0: associative list without keys has an element that's a map type",
            ),
            (
                json!({"multi": [{"port": 80}, {"port": 80, "proto": "TCP"}]}),
                r#".spec.multi: duplicate entries for key [port=80,proto="TCP"]"#,
            ),
            (
                json!({"map": [{"k": "a", "v": 1}]}),
                r#".spec.map[k="a"].v: expected string, got &value.valueUnstructured{Value:1}"#,
            ),
            (
                json!({"num": "a", "flag": 1}),
                "errors:\n  .spec.flag: expected boolean, got &{1}\n  .spec.num: expected numeric (int or float), got string",
            ),
        ];
        for (spec, expected) in rows {
            check_spec(spec, Err(expected));
        }
    }

    #[test]
    fn metadata_is_checked_in_every_object() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": 1}}});
        let wrong = ".metadata.labels.x: expected string, got &value.valueUnstructured{Value:1}";
        assert_eq!(validate(&object, SchemaPosition::root(None)), Err(wrong.to_owned()));
    }
}
