//! Checks that a schema is structural: every value it mentions is declared, with its type, outside alternatives.
//!
//! Pruning, defaulting and server-side apply rely on this. The messages and paths are those of Kubernetes.

use serde_json::{Map, Value, json};

use crate::field::{Error, Errors, FieldPath};
use crate::object::read::{list_at, string_at};
use crate::schema::pattern::PatternBudget;

/// Keywords that no schema may use.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

/// Keywords that alternatives must not use, with their name in Kubernetes' message.
const FORBIDDEN_NESTED: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// The same for lists.
const FORBIDDEN_NESTED_LISTS: [&str; 2] = ["x-kubernetes-list-map-keys", "x-kubernetes-validations"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Returns why the schema cannot even be parsed as structural.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let fields = schema.as_object()?;
    let is_set = |value: &Value| !value.is_null() && value != "";
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(keyword, _)| fields.get(*keyword).is_some_and(is_set))
    {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".into(),
        );
    }
    below(schema).find_map(unsupported)
}

/// Returns all schemas directly below one.
pub(super) fn below(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties", "not"].into_iter().map(|name| &schema[name]);
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| list_at(schema, name));
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
    single.chain(lists).chain(properties).filter(|one| one.is_object())
}

/// Validates the schema of one version; `patterns` is the budget of the whole definition.
pub(super) fn validate(schema: &Value, path: &FieldPath<'_>, patterns: &mut PatternBudget) -> Errors {
    let mut errors = Errors::new();
    check_invariants(schema, SchemaLevel::Root, path, &mut errors, patterns);
    check_declared(schema, schema, path, path, &mut errors);
    errors
}

fn check_invariants(
    schema: &Value,
    level: SchemaLevel,
    path: &FieldPath<'_>,
    errors: &mut Errors,
    patterns: &mut PatternBudget,
) {
    let kind = string_at(schema, "type");
    if kind == "array" && !schema["items"].is_object() {
        errors.push(Error::required(&path.field("items"), "must be specified"));
    }
    if schema["items"].is_object() {
        check_invariants(&schema["items"], SchemaLevel::Item, &path.field("items"), errors, patterns);
    }
    let properties = path.field("properties");
    for (name, below) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
        check_invariants(below, SchemaLevel::Field, &properties.key(name), errors, patterns);
    }
    let additional = &schema["additionalProperties"];
    let at = path.field("additionalProperties");
    if !additional.is_null() && level == SchemaLevel::Root {
        errors.push(Error::forbidden(&at, "must not be used at the root"));
    }
    if additional.is_object() {
        check_invariants(additional, SchemaLevel::Field, &at, errors, patterns);
    }
    check_extensions(schema, path, errors);
    check_alternatives(schema, true, path, errors, patterns);
    check_types(schema, level, path, errors);
    check_metadata(schema, level, path, errors);
}

fn check_extensions(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if schema["x-kubernetes-int-or-string"] != true {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema[name] == true {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.field(name), &true.into(), detail));
        }
    }
}

/// Requires every declared value to have a type, or an extension that replaces it.
fn check_types(schema: &Value, level: SchemaLevel, path: &FieldPath<'_>, errors: &mut Errors) {
    let kind = string_at(schema, "type");
    let at = path.field("type");
    let is = |name: &str| schema[name] == true;
    if is("x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.push(Error::required(&at, detail)),
            _ => errors.push(Error::invalid(&at, &kind.into(), detail)),
        }
    } else if kind.is_empty()
        && !is("x-kubernetes-int-or-string")
        && !is("x-kubernetes-preserve-unknown-fields")
    {
        let place = match level {
            SchemaLevel::Root => "at the root",
            SchemaLevel::Item => "for specified array items",
            SchemaLevel::Field => "for specified object fields",
        };
        errors.push(Error::required(&at, &format!("must not be empty {place}")));
    }
    if level == SchemaLevel::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&at, &kind.into(), "must be object at the root"));
    }
    if is("x-kubernetes-embedded-resource") {
        check_embedded(schema, path, errors);
    }
}

fn check_embedded(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if !schema["additionalProperties"].is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.field("additionalProperties"), detail));
    }
    let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    if schema["x-kubernetes-preserve-unknown-fields"] != true && !has_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.field("properties"), detail));
    }
}

/// Checks that a schema does not change the implied structure of metadata, kind and apiVersion.
fn check_metadata(schema: &Value, level: SchemaLevel, path: &FieldPath<'_>, errors: &mut Errors) {
    let is_whole = level == SchemaLevel::Root || schema["x-kubernetes-embedded-resource"] == true;
    let properties = path.field("properties");
    for name in ["kind", "apiVersion"] {
        let declared = &schema["properties"][name];
        if is_whole && declared.is_object() && string_at(declared, "type") != "string" {
            let at = properties.key(name);
            errors.push(Error::invalid(
                &at.field("type"),
                &string_at(declared, "type").into(),
                "must be string",
            ));
        }
    }
    let declared = &schema["properties"]["metadata"];
    if !declared.is_object() {
        return;
    }
    let at = properties.key("metadata");
    if is_whole && string_at(declared, "type") != "object" {
        errors.push(Error::invalid(&at.field("type"), &string_at(declared, "type").into(), "must be object"));
    }
    if level == SchemaLevel::Root && !only_names(declared) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(&at, detail));
    }
}

fn only_names(metadata: &Value) -> bool {
    let properties = metadata["properties"].as_object();
    let is_name = |name: &String| name == "name" || name == "generateName";
    let is_plain = |keyword: &String| matches!(keyword.as_str(), "type" | "properties" | "default");
    properties.is_none_or(|properties| properties.keys().all(is_name))
        && metadata.as_object().is_some_and(|fields| fields.keys().all(is_plain))
}

/// Returns whether these alternatives mean "integer or string". Only such alternatives may name types.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{"type": "integer"}, {"type": "string"}])
}

/// Validates alternatives; `may_name_types` is set where they may mean "integer or string".
fn check_alternatives(
    schema: &Value,
    may_name_types: bool,
    path: &FieldPath<'_>,
    errors: &mut Errors,
    patterns: &mut PatternBudget,
) {
    if !(may_name_types && is_int_or_string(&schema["anyOf"])) {
        let at = path.field("anyOf");
        for (index, one) in list_at(schema, "anyOf").iter().enumerate() {
            check_nested(one, false, &at.index(index), errors, patterns);
        }
    }
    let at = path.field("allOf");
    for (index, one) in list_at(schema, "allOf").iter().enumerate() {
        check_nested(one, may_name_types && index == 0, &at.index(index), errors, patterns);
    }
    let at = path.field("oneOf");
    for (index, one) in list_at(schema, "oneOf").iter().enumerate() {
        check_nested(one, false, &at.index(index), errors, patterns);
    }
    if schema["not"].is_object() {
        check_nested(&schema["not"], false, &path.field("not"), errors, patterns);
    }
    let source = string_at(schema, "pattern");
    if let Some(why) = patterns.error_text(source) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(Error::invalid(&path.field("pattern"), &source.into(), &detail));
    }
}

fn check_nested(
    schema: &Value,
    may_name_types: bool,
    path: &FieldPath<'_>,
    errors: &mut Errors,
    patterns: &mut PatternBudget,
) {
    check_alternatives(schema, may_name_types, path, errors, patterns);
    if schema["items"].is_object() {
        check_nested(&schema["items"], false, &path.field("items"), errors, patterns);
    }
    let properties = path.field("properties");
    for (name, below) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
        check_nested(below, false, &properties.key(name), errors, patterns);
    }
    for (keyword, detail) in FORBIDDEN_NESTED {
        if !schema[keyword].is_null() && schema[keyword] != false && schema[keyword] != "" {
            errors.push(Error::forbidden(&path.field(keyword), detail));
        }
    }
    for keyword in FORBIDDEN_NESTED_LISTS {
        if !list_at(schema, keyword).is_empty() {
            errors.push(Error::forbidden(&path.field(keyword), "must be empty to be structural"));
        }
    }
    if !schema["properties"]["metadata"].is_null() {
        let detail = "must not be specified in a nested context";
        errors.push(Error::forbidden(&properties.key("metadata"), detail));
    }
}

/// Requires that values mentioned in alternatives at the root are also declared outside them. Kubernetes requires this
/// only at the root.
fn check_declared(
    schema: &Value,
    from: &Value,
    path: &FieldPath<'_>,
    from_path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    if from["not"].is_object() {
        check_declared_below(schema, &from["not"], path, &from_path.field("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let at = from_path.field(name);
        for (index, one) in list_at(from, name).iter().enumerate() {
            check_declared_below(schema, one, path, &at.index(index), errors);
        }
    }
}

fn check_declared_below(
    schema: &Value,
    from: &Value,
    path: &FieldPath<'_>,
    from_path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    check_declared(schema, from, path, from_path, errors);
    let mut descend = |declared: &Value, from: &Value, path: &FieldPath<'_>, from_path: &FieldPath<'_>| {
        if declared.is_object() {
            check_declared_below(declared, from, path, from_path, errors);
        } else {
            errors.push(Error::required(path, &format!("because it is defined in {from_path}")));
        }
    };
    if from["items"].is_object() {
        descend(&schema["items"], &from["items"], &path.field("items"), &from_path.field("items"));
    }
    let (properties, from_properties) = (path.field("properties"), from_path.field("properties"));
    for (name, one) in from["properties"].as_object().into_iter().flat_map(Map::iter) {
        let declared = &schema["properties"][name];
        descend(declared, one, &properties.key(name), &from_properties.key(name));
    }
}
