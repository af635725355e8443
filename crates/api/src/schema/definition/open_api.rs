//! Validates the requirements for every node of a definition's schema beyond being structural: known types, no
//! forbidden keywords, and extensions that fit together.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::selectable::find;
use crate::field::{Error, Errors, FieldPath};
use crate::object::read::{list_at, string_at};
use crate::schema::constraints::JsonType;

/// Keywords that no node may use.
const FORBIDDEN: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn validate(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let walk = OpenApiValidator { is_root: true, defaults_forbidden: None, in_meta: false };
    walk.node(schema, path, errors);
}

#[derive(Clone, Copy)]
struct OpenApiValidator<'a> {
    is_root: bool,
    /// Why defaults are not allowed here, or `None` if they are.
    defaults_forbidden: Option<&'a str>,
    in_meta: bool,
}

impl OpenApiValidator<'_> {
    fn node(self, schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
        self.keywords(schema, path, errors);
        map_type(schema, path, errors);
        list_type(schema, path, errors);
        list_keys(schema, path, errors);
        rules(schema, path, errors);
        self.below(schema, path, errors);
    }

    fn below(self, schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
        let inner = OpenApiValidator { is_root: false, ..self };
        let additional = &schema["additionalProperties"];
        if additional.is_object() {
            let reason =
                if self.in_meta { "inside additionalProperties applying to object metadata" } else { "" };
            let defaults_forbidden = if self.in_meta { Some(reason) } else { self.defaults_forbidden };
            let walk = OpenApiValidator { defaults_forbidden, ..inner };
            walk.node(additional, &path.field("additionalProperties"), errors);
        }
        let properties = path.field("properties");
        for (name, below) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
            let is_whole = self.is_root || schema["x-kubernetes-embedded-resource"] == true;
            let is_meta = is_whole && META_FIELDS.contains(&name.as_str());
            let reason = format!("in top-level {name}");
            let forbidden = is_meta && self.is_root;
            let walk = OpenApiValidator {
                in_meta: self.in_meta || is_meta,
                defaults_forbidden: if forbidden { Some(&reason) } else { self.defaults_forbidden },
                ..inner
            };
            walk.node(below, &properties.key(name), errors);
        }
        for name in ["not", "items"] {
            if schema[name].is_object() {
                inner.node(&schema[name], &path.field(name), errors);
            }
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            let at = path.field(name);
            for (index, one) in list_at(schema, name).iter().enumerate() {
                inner.node(one, &at.index(index), errors);
            }
        }
    }

    fn keywords(self, schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
        let kind = string_at(schema, "type");
        let known = JsonType::ALL.map(JsonType::name);
        if !kind.is_empty() && !known.contains(&kind) {
            errors.push(Error::not_supported(&path.field("type"), &kind.into(), &known));
        }
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(Error::forbidden(&path.field("type"), detail));
        }
        if let (Some(reason), false) = (self.defaults_forbidden, schema["default"].is_null()) {
            errors.push(Error::forbidden(&path.field("default"), &format!("must not be set {reason}")));
        }
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        for keyword in FORBIDDEN.into_iter().filter(|keyword| is_set(&schema[*keyword])) {
            errors.push(Error::forbidden(&path.field(keyword), &format!("{keyword} is not supported")));
        }
        if schema["items"].is_array() {
            let detail = "items must be a schema object and not an array";
            errors.push(Error::forbidden(&path.field("items"), detail));
        }
        if self.in_meta && schema["x-kubernetes-embedded-resource"] == true {
            let at = path.field("x-kubernetes-embedded-resource");
            errors.push(Error::forbidden(&at, "must not be used inside of resource meta"));
        }
        odd_values(schema, path, errors);
    }
}

fn odd_values(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if schema["uniqueItems"] == true {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.field("uniqueItems"), detail));
    }
    let additional = &schema["additionalProperties"];
    let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    if has_properties && (additional.is_object() || *additional == false) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(Error::forbidden(&path.field("additionalProperties"), detail));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(&at, &false.into(), "must be true or undefined"));
    }
}

/// Returns whether an extension that requires a certain type has that type.
fn fits_type(
    schema: &Value,
    extension: &str,
    wanted: &str,
    path: &FieldPath<'_>,
    errors: &mut Errors,
) -> bool {
    let kind = string_at(schema, "type");
    if schema[extension].is_null() || kind == wanted {
        return true;
    }
    let at = path.field("type");
    let detail = format!("must be {wanted} if {extension} is specified");
    match kind {
        "" => errors.push(Error::required(&at, &detail)),
        _ => errors.push(Error::invalid(&at, &kind.into(), &detail)),
    }
    false
}

fn map_type(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-map-type";
    fits_type(schema, NAME, "object", path, errors);
    if !schema[NAME].is_null() && !matches!(string_at(schema, NAME), "atomic" | "granular") {
        errors.push(Error::not_supported(&path.field(NAME), &schema[NAME], &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-list-type";
    let fits = fits_type(schema, NAME, "array", path, errors);
    let list_type = string_at(schema, NAME);
    let items = &schema["items"];
    let at = path.field("items");
    if fits && list_type == "set" {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let inner = string_at(items, NAME);
        if string_at(items, "type") == "array" && !inner.is_empty() && inner != "atomic" {
            errors.push(Error::invalid(&at.field(NAME), &inner.into(), detail));
        }
        if string_at(items, "type") == "object" && string_at(items, "x-kubernetes-map-type") != "atomic" {
            errors.push(Error::invalid(&at.field("x-kubernetes-map-type"), &items[NAME], detail));
        }
    }
    if !schema[NAME].is_null() && !matches!(list_type, "atomic" | "set" | "map") {
        errors.push(Error::not_supported(&path.field(NAME), &schema[NAME], &["atomic", "set", "map"]));
    }
    if matches!(list_type, "set" | "map") && items["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&at.field("nullable"), &detail));
    }
}

fn list_keys(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-list-map-keys";
    let keys = list_at(schema, NAME);
    let list_type = string_at(schema, "x-kubernetes-list-type");
    if list_type != "map" {
        if !keys.is_empty() {
            let at = path.field("x-kubernetes-list-type");
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                "" => errors.push(Error::required(&at, detail)),
                other => errors.push(Error::invalid(&at, &other.into(), detail)),
            }
        }
        return;
    }
    let at = path.field(NAME);
    if keys.is_empty() {
        errors.push(Error::required(&at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = &schema["items"];
    let items_at = path.field("items");
    if items.is_null() {
        errors.push(Error::required(&items_at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    if string_at(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_at.field("type"), &string_at(items, "type").into(), detail));
        return;
    }
    let mut seen = HashSet::new();
    for key in keys.iter().map(|key| key.as_str().unwrap_or_default()) {
        if !seen.insert(key) {
            errors.push(Error::invalid(&at, &schema[NAME], "must not contain duplicate entries"));
        }
        if !items["properties"][key].is_object() {
            errors.push(Error::invalid(&at, &schema[NAME], "entries must all be names of item properties"));
        }
    }
    let properties = items_at.field("properties");
    let required = list_at(items, "required").iter().filter_map(Value::as_str).collect::<HashSet<_>>();
    for key in keys.iter().filter_map(Value::as_str) {
        list_key(items, key, required.contains(key), &properties.key(key), errors);
    }
}

fn list_key(items: &Value, key: &str, is_required: bool, path: &FieldPath<'_>, errors: &mut Errors) {
    let declared = &items["properties"][key];
    if !declared.is_object() {
        return;
    }
    if matches!(string_at(declared, "type"), "array" | "object") {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&path.field("type"), &string_at(items, "type").into(), detail));
    }
    if !is_required && declared["default"].is_null() {
        let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
        errors.push(Error::required(&path.field("default"), detail));
    }
    if declared["nullable"] == true {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.push(Error::forbidden(&path.field("nullable"), detail));
    }
}

/// Validates `x-kubernetes-validations`, except for the expressions themselves.
fn rules(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-validations";
    let at = path.field(NAME);
    for (index, rule) in list_at(schema, NAME).iter().enumerate() {
        one_rule(schema, rule, &at.index(index), errors);
    }
}

fn one_rule(schema: &Value, rule: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (string_at(rule, "rule").trim(), string_at(rule, "message"));
    let at = path.field("message");
    if expression.is_empty() {
        errors.push(Error::required(&path.field("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid(&at, &message.into(), "must be non-empty if specified"));
    } else if has_breaks(message.trim()) {
        errors.push(Error::invalid(&at, &message.into(), "must not contain line breaks"));
    } else if has_breaks(expression) && message.trim().is_empty() {
        errors.push(Error::required(&at, "message must be specified if rule contains line breaks"));
    }
    let message_expression = string_at(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.field("messageExpression"), detail));
    }
    if rule["reason"].as_str().is_some_and(|reason| !REASONS.contains(&reason)) {
        errors.push(Error::not_supported(&path.field("reason"), &rule["reason"], &REASONS));
    }
    field_path(schema, string_at(rule, "fieldPath"), &path.field("fieldPath"), errors);
}

fn field_path(schema: &Value, given: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    if given.is_empty() {
        return;
    }
    let mut invalid = |detail: &str| errors.push(Error::invalid(path, &given.into(), detail));
    if given.trim().is_empty() {
        invalid("must be non-empty if specified");
    }
    if given.contains(['\n', '\r']) {
        invalid("must not contain line breaks");
    }
    if find(schema, given, true).is_err() {
        invalid("must be a valid path");
    }
}
