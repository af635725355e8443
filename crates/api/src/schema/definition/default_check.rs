//! Checks that the defaults of a definition are accepted by their schema and have no unknown fields. CEL rules are
//! evaluated elsewhere, once they are known to be valid.

use serde_json::{Map, Value};

use crate::field::{Error, Errors, FieldPath};
use crate::schema::constraints::ValueConstraints;
use crate::schema::validate::constraint_errors;
use crate::schema::{custom, embedded, prune};

/// Validates the defaults of a structural schema and of all schemas below it.
pub(super) fn validate(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        validate_default(schema, default, &path.field("default"), errors);
    }
    validate_below(schema, path, errors);
}

fn validate_below(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if schema["items"].is_object() {
        validate(&schema["items"], &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, below) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
        validate(below, &properties.key(name), errors);
    }
}

/// Validates one default. As in Kubernetes, errors in embedded resources hide all others.
fn validate_default(schema: &Value, default: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let node = custom::node(schema);
    let mut pruned = default.clone();
    prune(&node, &mut pruned, None);
    if &pruned != default {
        errors.push(Error::invalid(path, default, "must not have unknown fields"));
    }
    if let Err(error) = embedded::coerce(&node, &mut pruned, path) {
        return errors.push(error);
    }
    let before = errors.len();
    embedded::validate(&node, &pruned, path, errors);
    if errors.len() == before {
        errors.append(constraint_errors(&ValueConstraints::read(schema), default, None, &path.to_string()));
    }
}
