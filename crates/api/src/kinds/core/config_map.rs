//! ConfigMap: configuration for Pods to read.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::{Error, FieldPath};
use crate::names;
use crate::object::fill::is_same;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::value_at::{Errors, ValueAt};

/// The maximum size of all values in one object: 1 MiB, so that the whole object fits into the store.
pub(in crate::kinds) const BYTES_MAX: usize = 1024 * 1024;

const IMMUTABLE_TEXT: &str = "field is immutable when `immutable` is set";

/// The ConfigMap in every namespace that holds the server's certificate authority, which lets Pods trust the server.
pub const ROOT_CA: &str = "kube-root-ca.crt";

/// Configuration for Pods to read.
pub static CONFIG_MAP: BuiltInKind = BuiltInKind {
    short_names: &["cm"],
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Data"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("", "v1", "configmaps", "ConfigMap")
};

/// Validates a ConfigMap.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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
        // kube-apiserver names no field here, so empty brackets are printed.
        errors.push(Error::too_long(&FieldPath::Key(&FieldPath::Root, ""), BYTES_MAX));
    }
}

pub(in crate::kinds) fn check_key(key: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    for error_text in names::config_key(key) {
        errors.push(Error::invalid(path, &json!(key), &error_text));
    }
}

/// Returns the number of bytes that base64 text encodes.
pub(in crate::kinds) fn decoded_len(text: &str) -> usize {
    let text = text.trim_end_matches('=');
    text.len() * 3 / 4
}

/// Validates a changed ConfigMap.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    frozen(new, old, &["data", "binaryData"], errors);
}

/// Requires an object marked immutable to stay unchanged and marked.
pub(in crate::kinds) fn frozen(new: &ValueAt<'_>, old: &Value, parts: &[&str], errors: &mut Errors) {
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
        if !is_same(part.value, old.get(&name).unwrap_or(&Value::Null)) {
            part.forbidden(IMMUTABLE_TEXT, errors);
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |path| read::object_at(object, path).map_or(0, serde_json::Map::len);
    vec![
        read::name(object).into(),
        (count("data") + count("binaryData")).into(),
        age::age_of_object(object, now).into(),
    ]
}
