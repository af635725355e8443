//! ConfigMaps and Secrets: keys, sizes, types, immutability.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::decode::json_complaint;
use crate::field::{Error, Path};
use crate::kinds::fill::same;
use crate::kinds::names;

/// All values of one object together: 1 MiB, so that it fits the store with room for the rest.
const BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE_TEXT: &str = "field is immutable when `immutable` is set";

/// A ConfigMap.
pub(in crate::kinds) fn config_map(object: &At<'_>, errors: &mut Errors) {
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

fn check_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for complaint in names::config_key(key) {
        errors.push(Error::invalid(path, &json!(key), &complaint));
    }
}

/// How many bytes base64 text stands for.
fn decoded_len(text: &str) -> usize {
    let text = text.trim_end_matches('=');
    text.len() * 3 / 4
}

/// A changed ConfigMap.
pub(in crate::kinds) fn config_map_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    frozen(new, old, &["data", "binaryData"], errors);
}

/// What is marked immutable stays, and stays marked.
fn frozen(new: &At<'_>, old: &Value, parts: &[&str], errors: &mut Errors) {
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

/// A Secret: its type says which keys it needs.
pub(in crate::kinds) fn secret(object: &At<'_>, errors: &mut Errors) {
    let data = object.field("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(key, &value.path, errors);
        bytes += decoded_len(value.text());
    }
    if bytes > BYTES_MAX {
        errors.push(Error::too_long(&data.path, BYTES_MAX));
    }
    match object.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let (metadata, name) = (object.field("metadata"), "kubernetes.io/service-account.name");
            metadata.field("annotations").key(name).must_be_set(errors);
        }
        "kubernetes.io/dockercfg" => check_docker(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => check_docker(&data.key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" => {
            let keys = [data.key("username"), data.key("password")];
            if keys.iter().all(|key| !key.is_set()) {
                for key in &keys {
                    key.required("", errors);
                }
            }
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").must_be_set(errors);
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].map(|name| data.key(name)).iter().filter(|key| !key.is_set()) {
                key.required("", errors);
            }
        }
        _ => {}
    }
}

/// The value must be a JSON object; it is never repeated in the complaint.
fn check_docker(value: &At<'_>, errors: &mut Errors) {
    if !value.is_set() {
        value.required("", errors);
        return;
    }
    let bytes = STANDARD.decode(value.text()).unwrap_or_default();
    if let Err(why) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let why = json_complaint(&bytes).unwrap_or_else(|| why.to_string());
        errors.push(Error::invalid(&value.path, &json!("<secret contents redacted>"), &why));
    }
}

/// A changed Secret.
pub(in crate::kinds) fn secret_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("type").must_stay(&old["type"], errors);
    frozen(new, old, &["data"], errors);
}
