//! Validates the printer columns and subresources of a definition.

use serde_json::Value;

use crate::field::{Error, Errors, FieldPath};
use crate::object::read::string_at;

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// Validates `additionalPrinterColumns` below `path`.
pub(super) fn columns(columns: &[Value], path: &FieldPath<'_>, errors: &mut Errors) {
    let path = path.field("additionalPrinterColumns");
    for (index, column) in columns.iter().enumerate() {
        validate_column(column, &path.index(index), errors);
    }
}

fn validate_column(column: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if string_at(column, "name").is_empty() {
        errors.push(Error::required(&path.field("name"), ""));
    }
    let kind = string_at(column, "type");
    let detail = format!("must be one of {COLUMN_TYPES}");
    if kind.is_empty() {
        errors.push(Error::required(&path.field("type"), &detail));
    } else if !COLUMN_TYPES.split(',').any(|one| one == kind) {
        errors.push(Error::invalid(&path.field("type"), &kind.into(), &detail));
    }
    let format = string_at(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|one| one == format) {
        let detail = format!("must be one of {COLUMN_FORMATS}");
        errors.push(Error::invalid(&path.field("format"), &format.into(), &detail));
    }
    match string_at(column, "jsonPath") {
        "" => errors.push(Error::required(&path.field("JSONPath"), "")),
        value => {
            simple_path(value, &path.field("JSONPath"), errors);
        }
    }
}

/// Validates `subresources` at `path`: status requires nothing, scale requires its paths.
pub(super) fn subresources(subresources: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let scale = &subresources["scale"];
    if scale.is_null() {
        return;
    }
    for (name, below) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let at = format!("scale.{name}");
        let at = path.field(&at);
        match string_at(scale, name) {
            "" => errors.push(Error::required(&at, "")),
            value if simple_path(value, &at, errors) && !is_below(value, below) => {
                let detail = format!("should be a json path under {below}");
                errors.push(Error::invalid(&at, &value.into(), &detail));
            }
            _ => {}
        }
    }
    let selector = string_at(scale, "labelSelectorPath");
    let at = path.field("scale.labelSelectorPath");
    let is_known = is_below(selector, ".spec") || is_below(selector, ".status");
    if !selector.is_empty() && simple_path(selector, &at, errors) && !is_known {
        let detail = "should be a json path under either .spec or .status";
        errors.push(Error::invalid(&at, &selector.into(), detail));
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))
}

fn simple_path(value: &str, path: &FieldPath<'_>, errors: &mut Errors) -> bool {
    if !value.starts_with('.') {
        errors.push(Error::invalid(path, &value.into(), "must be a simple json path starting with ."));
        return false;
    }
    true
}
