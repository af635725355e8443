//! Secret: confidential data for Pods to read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::decode::json_complaint;
use crate::field::Error;
use crate::kinds::core::config_map;
use crate::kinds::declaration::Kind;
use crate::kinds::fill::{Fields, fill_zero, made};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::validate::at::{At, Errors};

/// Confidential data for Pods to read.
pub(crate) static SECRET: Kind = Kind {
    defaults: Some(defaults),
    fold_aliases: Some(fold_string_data),
    prepare_create: Some(|_, fields, _| {
        fold_string_data(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| fold_string_data(fields)),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("Type"), Column::text("Data"), Column::text("Age")],
    cells: Some(cells),
    selectable: Selectable::fields(&[("type", Absent::Empty)]),
    ..Kind::namespaced("", "v1", "secrets", "Secret")
};

/// A Secret: its type says which keys it needs.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let data = object.field("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        config_map::check_key(key, &value.path, errors);
        bytes += config_map::decoded_len(value.text());
    }
    if bytes > config_map::BYTES_MAX {
        errors.push(Error::too_long(&data.path, config_map::BYTES_MAX));
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
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("type").must_stay(&old["type"], errors);
    config_map::frozen(new, old, &["data"], errors);
}

/// A Secret.
fn defaults(object: &mut Fields) {
    fill_zero(object, "type", "Opaque");
}

/// `stringData` is for writing only: its values go into `data`.
fn fold_string_data(secret: &mut Fields) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let Some(data) = made(secret, "data") else { return };
    for (key, value) in plain {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = read::map(object, "data").map_or(0, serde_json::Map::len);
    vec![
        read::name(object).into(),
        read::text(object, "type").into(),
        count.into(),
        age::of(object, now).into(),
    ]
}
