//! ConfigMap: configuration for Pods to read.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::kinds::declaration::Kind;
use crate::kinds::fill::same;
use crate::kinds::names;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::validate::at::{At, Errors};

/// All values of one object together: 1 MiB, so that it fits the store with room for the rest.
pub(in crate::kinds) const BYTES_MAX: usize = 1024 * 1024;

const IMMUTABLE_TEXT: &str = "field is immutable when `immutable` is set";

/// Configuration for Pods to read.
pub(crate) static CONFIG_MAP: Kind = Kind {
    short_names: &["cm"],
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Data"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::namespaced("", "v1", "configmaps", "ConfigMap")
};

/// A ConfigMap.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let (data, binary) = (object.field("data"), object.field("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(key, &value.path, errors);
        if binary.value.get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            errors.push(Error::invalid(&value.path, &json!(key), detail));
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        check_key(key, &value.path, errors);
        bytes += decoded_len(value.text());
    }
    if bytes > BYTES_MAX {
        // The real server names no field here, which prints as empty brackets.
        errors.push(Error::too_long(&Path::Key(&Path::Root, ""), BYTES_MAX));
    }
}

pub(in crate::kinds) fn check_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for complaint in names::config_key(key) {
        errors.push(Error::invalid(path, &json!(key), &complaint));
    }
}

/// How many bytes base64 text stands for.
pub(in crate::kinds) fn decoded_len(text: &str) -> usize {
    let text = text.trim_end_matches('=');
    text.len() * 3 / 4
}

/// A changed ConfigMap.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    frozen(new, old, &["data", "binaryData"], errors);
}

/// What is marked immutable stays, and stays marked.
pub(in crate::kinds) fn frozen(new: &At<'_>, old: &Value, parts: &[&str], errors: &mut Errors) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    let mark = new.field("immutable");
    if mark.value != &Value::Bool(true) {
        mark.forbidden(IMMUTABLE_TEXT, errors);
    }
    for part in parts {
        let part = new.field(part);
        let name = part.path.to_string();
        if !same(part.value, old.get(&name).unwrap_or(&Value::Null)) {
            part.forbidden(IMMUTABLE_TEXT, errors);
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |path| read::map(object, path).map_or(0, serde_json::Map::len);
    vec![read::name(object).into(), (count("data") + count("binaryData")).into(), age::of(object, now).into()]
}
