//! Tests values against schemas: each row is a value and the causes for which it is rejected.

use serde_json::json;

use super::*;
use crate::schema::custom;

/// Compares `field: body` of each error, in any order.
#[track_caller]
fn check(spec: &Value, value: &Value, expected: &[&str]) {
    check_update(spec, value, None, expected);
}

#[track_caller]
fn check_update(spec: &Value, value: &Value, old: Option<&Value>, expected: &[&str]) {
    let schema = custom(&json!({"type": "object", "properties": {"spec": spec}}));
    let whole = |spec: &Value| json!({"apiVersion": "a/v1", "kind": "K", "metadata": {}, "spec": spec});
    let old = old.map(whole);
    let mut found: Vec<_> =
        validate(&schema, &whole(value), old.as_ref()).iter().map(ToString::to_string).collect();
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn numbers() {
    let spec = json!({"type": "object", "properties": {
        "m": {"type": "integer", "minimum": 1, "maximum": 10},
        "x": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true},
        "mult": {"type": "integer", "multipleOf": 5},
        "i32": {"type": "integer", "format": "int32"}, "i64": {"type": "integer", "format": "int64"}}});
    check(&spec, &json!({"i64": i64::MAX, "m": 10, "x": 0.5, "mult": -10}), &[]);
    let rows = [
        (json!({"m": 0}), "spec.m: Invalid value: 0: spec.m in body should be greater than or equal to 1"),
        (json!({"m": 11}), "spec.m: Invalid value: 11: spec.m in body should be less than or equal to 10"),
        (json!({"x": 0}), "spec.x: Invalid value: 0: spec.x in body should be greater than 0"),
        (json!({"x": 1}), "spec.x: Invalid value: 1: spec.x in body should be less than 1"),
        (json!({"mult": 7}), "spec.mult: Invalid value: 7: spec.mult in body should be a multiple of 5"),
        (
            json!({"i32": 3_000_000_000_i64}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.i32",
        ),
    ];
    for (value, error_text) in rows {
        check(&spec, &value, &[error_text]);
    }
    check(
        &spec,
        &json!({"i64": 9_223_372_036_854_775_808.0}),
        &[
            "spec.i64: Invalid value: \"float64\": spec.i64 in body must be of type int64: \"float64\"",
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int64 in spec.i64",
        ],
    );
}

#[test]
fn text_and_formats() {
    let spec = json!({"type": "object", "properties": {
        "s": {"type": "string", "minLength": 3, "maxLength": 5, "pattern": "^a+$"},
        "e": {"type": "string", "enum": ["A", "B"]}, "n": {"type": "integer", "enum": [1, 2]},
        "d": {"type": "string", "format": "date-time"}, "f": {"type": "string", "format": "made-up"}}});
    check(&spec, &json!({"s": "aaa", "e": "A", "n": 2, "d": "2020-01-01T00:00:00Z", "f": "x"}), &[]);
    check(&spec, &json!({"s": "aaaaaa"}), &["spec.s: Too long: may not be more than 5 bytes"]);
    check(
        &spec,
        &json!({"s": "aa"}),
        &[r#"spec.s: Invalid value: "aa": spec.s in body should be at least 3 chars long"#],
    );
    check(
        &spec,
        &json!({"s": "bbb"}),
        &[r#"spec.s: Invalid value: "bbb": spec.s in body should match '^a+$'"#],
    );
    check(&spec, &json!({"e": "C"}), &[r#"spec.e: Unsupported value: "C": supported values: "A", "B""#]);
    check(&spec, &json!({"n": 3}), &[r#"spec.n: Unsupported value: 3: supported values: "1", "2""#]);
    check(
        &spec,
        &json!({"d": "not a date"}),
        &[r#"spec.d: Invalid value: "not a date": spec.d in body must be of type date-time: "not a date""#],
    );
    check(
        &spec,
        &json!({"s": 5}),
        &[r#"spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer""#],
    );
}

#[test]
fn lists_and_maps() {
    let spec = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}},
            "required": ["k"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "p": {"type": "object", "minProperties": 1, "maxProperties": 2,
            "additionalProperties": {"type": "integer"}},
        "i": {"x-kubernetes-int-or-string": true}}});
    check(&spec, &json!({"l": ["a", "a"], "set": ["a"], "map": [{"k": "a"}], "p": {"a": 1}, "i": "1"}), &[]);
    let rows = [
        (json!({"l": []}), "spec.l: Invalid value: 0: spec.l in body should have at least 1 items"),
        (json!({"l": ["a", "b", "c"]}), "spec.l: Too many: 3: must have at most 2 items"),
        (json!({"set": ["a", "a"]}), r#"spec.set[1]: Duplicate value: "a""#),
        (json!({"map": [{"k": "a"}, {"k": "a"}]}), r#"spec.map[1]: Duplicate value: {"k":"a"}"#),
        (json!({"map": [{}]}), "spec.map[0].k: Required value"),
        (json!({"p": {}}), "spec.p: Invalid value: 0: spec.p in body should have at least 1 properties"),
        (json!({"p": {"a": 1, "b": 2, "c": 3}}), "spec.p: Too many: 3: must have at most 2 items"),
        (
            json!({"p": {"a": "x"}}),
            r#"spec.p.a: Invalid value: "string": spec.p.a in body must be of type integer: "string""#,
        ),
        (
            json!({"i": true}),
            r#"spec.i: Invalid value: "boolean": spec.i in body must be of type integer,string: "boolean""#,
        ),
    ];
    for (value, error_text) in rows {
        check(&spec, &value, &[error_text]);
    }
}

#[test]
fn alternatives() {
    let n = json!({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 0}], "not": {"enum": [15]},
        "allOf": [{"maximum": 100}]});
    let spec = json!({"type": "object", "properties": {"n": n}});
    check(&spec, &json!({"n": 20}), &[]);
    check(
        &spec,
        &json!({"n": 5}),
        &[
            r#"<nil>: Invalid value: "": "spec.n" must validate at least one schema (anyOf)"#,
            "spec.n: Invalid value: 5: spec.n in body should be greater than or equal to 10",
        ],
    );
    check(
        &spec,
        &json!({"n": 15}),
        &[r#"<nil>: Invalid value: "": "spec.n" must not validate the schema (not)"#],
    );
    check(
        &spec,
        &json!({"n": 101}),
        &[
            r#"<nil>: Invalid value: "": "spec.n" must validate all the schemas (allOf). None validated"#,
            "spec.n: Invalid value: 101: spec.n in body should be less than or equal to 100",
        ],
    );
    let one = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(&one, &json!({"a": "1"}), &[]);
    let start = r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found"#;
    check(&one, &json!({"a": "1", "b": "1"}), &[&format!("{start} 2 valid alternatives")]);
    check(&one, &json!({}), &[&format!("{start} none valid"), "spec.a: Required value"]);
}

#[test]
fn an_update_may_keep_what_was_wrong() {
    let spec = json!({"type": "object", "properties": {
        "n": {"type": "integer", "minimum": 1}, "s": {"type": "string"},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "minimum": 1}}}}}});
    let old = json!({"n": 0, "l": [{"k": "a", "v": 0}]});
    let kept = json!({"n": 0, "s": "x", "l": [{"k": "b", "v": 1}, {"k": "a", "v": 0}]});
    check_update(&spec, &kept, Some(&old), &[]);
    let worse = json!({"n": -1, "l": [{"k": "a", "v": 0}]});
    let error_text = "spec.n: Invalid value: -1: spec.n in body should be greater than or equal to 1";
    check_update(&spec, &worse, Some(&old), &[error_text]);
}

#[test]
fn nulls_and_numbers_print_as_in_go() {
    let spec = json!({"type": "object", "required": ["r"], "properties": {"r": {"type": "string"},
        "n": {"type": "string", "nullable": true}}});
    check(&spec, &json!({"n": null, "r": "x"}), &[]);
    let error_text = r#"spec.r: Invalid value: "null": spec.r in body must be of type string: "null""#;
    check(&spec, &json!({"r": null}), &[error_text]);
    assert_eq!(print_bound(0.5, false), "0.5");
    assert_eq!(print_bound(1_500_000.0, false), "1.5e+06");
    assert_eq!(print_bound(1_000_000.0, true), "1000000");
}
