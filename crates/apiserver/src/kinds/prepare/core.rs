//! New and changed objects of the small core kinds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_core::Clock;
use serde_json::{Value, json};

use crate::auth::{Identity, MASTERS};
use crate::kinds::fill::{Fields, made, text};
use crate::kinds::pem;
use crate::resource::Resource;
use crate::status::Status;

/// Who signs certificates this server takes from its clients.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn now(clock: &Clock) -> Value {
    clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// A namespace waits for the namespace controller before it goes.
pub(in crate::kinds) fn namespace_created(namespace: &mut Fields) {
    let Some(spec) = made(namespace, "spec") else { return };
    push_once(spec, "finalizers", "kubernetes");
}

/// Guards an object with a finalizer that its controller removes.
pub(in crate::kinds) fn add_finalizer(object: &mut Fields, finalizer: &str) {
    if let Some(metadata) = made(object, "metadata") {
        push_once(metadata, "finalizers", finalizer);
    }
}

fn push_once(parent: &mut Fields, list: &str, item: &str) {
    match parent.get_mut(list) {
        Some(Value::Array(items)) => {
            if items.iter().all(|one| one != item) {
                items.push(item.into());
            }
        }
        _ => {
            parent.insert(list.into(), json!([item]));
        }
    }
}

/// `stringData` is for writing only: its values go into `data`.
pub(in crate::kinds) fn fold_string_data(secret: &mut Fields) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let Some(data) = made(secret, "data") else { return };
    for (key, value) in plain {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

/// Of a reference to a Secret only the name counts.
pub(in crate::kinds) fn clean_secret_references(account: &mut Fields) {
    let Some(Value::Array(secrets)) = account.get_mut("secrets") else { return };
    for secret in secrets.iter_mut().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field == "name");
    }
}

/// Nobody asks for a certificate of the server's own clients that makes its holder the master of the cluster.
pub(in crate::kinds) fn check_request_subject(resource: &Resource, request: &Fields) -> Result<(), Status> {
    let (spec, metadata) = (request.get("spec"), request.get("metadata"));
    let said = |name: &str| spec.map_or("", |spec| text(spec, name));
    // What is no request at all is refused as invalid later.
    if said("signerName") != CLIENT_SIGNER || !pem::is_request(said("request")) {
        return Ok(());
    }
    let why = match pem::organizations(said("request")) {
        Some(groups) if !groups.iter().any(|group| group == MASTERS) => return Ok(()),
        Some(_) => format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"),
        None => {
            "failed to parse CSR: it must be one PEM block, and organizations must be UTF-8 or printable text"
                .into()
        }
    };
    let name = metadata.map_or("", |metadata| text(metadata, "name"));
    Err(Status::forbidden(&resource.about(name), &why))
}

/// A volume notes when its phase last changed, and is guarded while in use.
pub(in crate::kinds) fn volume_created(volume: &mut Fields, clock: &Clock) {
    volume.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": now(clock)}));
    add_finalizer(volume, "kubernetes.io/pv-protection");
}

/// A certificate signing request records who asked; what the client says about that does not count.
pub(in crate::kinds) fn request_created(request: &mut Fields, identity: &Identity) {
    let Some(spec) = made(request, "spec") else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    let facts = [
        ("username", json!(identity.name)),
        ("uid", json!(identity.uid)),
        ("groups", json!(identity.groups)),
        ("extra", json!(identity.extra)),
    ];
    for (field, value) in facts {
        if !crate::kinds::fill::is_zero(Some(&value)) {
            spec.insert(field.into(), value);
        }
    }
}
