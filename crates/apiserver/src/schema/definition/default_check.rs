//! Defaults of a definition must be values their schema accepts, without fields it does not know. Its rules in CEL are
//! asked elsewhere, once they are known to be right.

use serde_json::{Map, Value};

use crate::field::{Error, Errors, Path};
use crate::schema::rules::Rules;
use crate::schema::validate::judge;
use crate::schema::{custom, embedded, prune};

/// Judges the defaults of a structural schema and of all below it.
pub(super) fn validate(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        one(schema, default, &path.field("default"), errors);
    }
    validate_below(schema, path, errors);
}

fn validate_below(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    if schema["items"].is_object() {
        validate(&schema["items"], &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, below) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
        validate(below, &properties.key(name), errors);
    }
}

/// What is wrong with the resources in it is told alone, as in Kubernetes.
fn one(schema: &Value, default: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        errors.append(judge(&Rules::read(schema), default, None, &path.to_string()));
    }
}
