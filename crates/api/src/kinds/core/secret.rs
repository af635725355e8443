//! Secret: confidential data for Pods to read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::decode::json_error_text;
use crate::field::Error;
use crate::kinds::core::config_map;
use crate::kinds::kind_warnings;
use crate::object::fill::{JsonObject, object_or_insert, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::value_at::{Errors, ValueAt};

/// Confidential data for Pods to read.
pub static SECRET: BuiltInKind = BuiltInKind {
    defaults: Some(defaults),
    fold_aliases: Some(fold_string_data),
    prepare_create: Some(|_, fields, _| {
        fold_string_data(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| fold_string_data(fields)),
    validate: Some(validate),
    validate_update: Some(validate_update),
    warn: Some(kind_warnings::secret),
    columns: &[Column::NAME, Column::text("Type"), Column::text("Data"), Column::text("Age")],
    cells: Some(cells),
    selectable: SelectableFields::fields(&[("type", AbsentValue::Empty)]),
    ..BuiltInKind::namespaced("", "v1", "secrets", "Secret")
};

/// Validates a Secret: its type determines which keys it needs.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

/// Requires the value to be a JSON object; the error never reveals it.
fn check_docker(value: &ValueAt<'_>, errors: &mut Errors) {
    if !value.is_set() {
        value.required("", errors);
        return;
    }
    let bytes = STANDARD.decode(value.text()).unwrap_or_default();
    if let Err(why) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let why = json_error_text(&bytes).unwrap_or_else(|| why.to_string());
        errors.push(Error::invalid(&value.path, &json!("<secret contents redacted>"), &why));
    }
}

/// Validates a changed Secret.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("type").must_stay(&old["type"], errors);
    config_map::frozen(new, old, &["data"], errors);
}

/// Fills in the defaults of a Secret.
fn defaults(object: &mut JsonObject) {
    set_if_zero(object, "type", "Opaque");
}

/// Moves the values of the write-only `stringData` into `data`.
fn fold_string_data(secret: &mut JsonObject) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let Some(data) = object_or_insert(secret, "data") else { return };
    for (key, value) in plain {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = read::object_at(object, "data").map_or(0, serde_json::Map::len);
    vec![
        read::name(object).into(),
        read::string_at(object, "type").into(),
        count.into(),
        age::age_of_object(object, now).into(),
    ]
}
