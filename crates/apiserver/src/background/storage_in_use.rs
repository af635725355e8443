//! Storage in use: releases deleted claims, volumes and classes once nothing uses them.
//!
//! The server adds their finalizers when they are created, so the server also removes them.

use homeostat_api::kinds::core::persistent_volume::PERSISTENT_VOLUME;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::storage::volume_attributes_class::VOLUME_ATTRIBUTES_CLASS;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_api::storage::Storage;
use homeostat_core::{Key, Prefix};
use serde_json::Value;

use super::garbage_collector::remove_finalizer;
use crate::backend::Backend;
use crate::stored::encode;

const PODS: Storage<'static> = POD.storage();
const CLAIMS: Storage<'static> = PERSISTENT_VOLUME_CLAIM.storage();
const VOLUMES: Storage<'static> = PERSISTENT_VOLUME.storage();
const CLASSES: Storage<'static> = VOLUME_ATTRIBUTES_CLASS.storage();

/// Returns the finalizer that protects an object of this resource while it is in use.
fn protection_finalizer(key: &Key) -> Option<&'static str> {
    match Storage::of_key(key) {
        CLAIMS => Some("kubernetes.io/pvc-protection"),
        VOLUMES => Some("kubernetes.io/pv-protection"),
        CLASSES => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

/// Reconciles an object that is marked for deletion: releases it if it is unused storage, otherwise remembers to
/// check again.
pub(super) async fn reconcile(backend: &Backend, key: &Key, object: &Value) -> Result<(), Status> {
    let Some(finalizer) =
        protection_finalizer(key).filter(|finalizer| meta::has_finalizer(object, finalizer))
    else {
        return Ok(());
    };
    // Set before the check, so that a user who leaves in the meantime is not missed.
    backend.notices.add_waiting_storage(key);
    if is_used(backend, key, object) {
        return Ok(());
    }
    backend.notices.remove_waiting_storage(key);
    remove_finalizer(backend, key, finalizer).await
}

fn is_used(backend: &Backend, key: &Key, object: &Value) -> bool {
    match Storage::of_key(key) {
        CLAIMS => any_object(backend, &PODS.prefix_in(key.namespace()), |pod| uses_claim(pod, key.name())),
        VOLUMES => {
            let claim = &object["spec"]["claimRef"];
            let name = |field: &str| claim[field].as_str().unwrap_or_default();
            let claim = CLAIMS.key(name("namespace"), name("name"));
            object["status"]["phase"] == "Bound" && backend.store.snapshot().get(&claim).is_some()
        }
        _ => [CLAIMS, VOLUMES].iter().any(|storage| {
            any_object(backend, &storage.prefix(), |one| {
                one["spec"]["volumeAttributesClassName"] == key.name()
            })
        }),
    }
}

fn any_object(backend: &Backend, prefix: &Prefix, is_wanted: impl Fn(&Value) -> bool) -> bool {
    backend.store.snapshot().range(prefix, "").any(|entry| is_wanted(&encode::decode(entry)))
}

/// Returns whether the Pod uses the claim. One that was never bound to a node does not.
fn uses_claim(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    pod["spec"]["nodeName"].is_string()
        && volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}
