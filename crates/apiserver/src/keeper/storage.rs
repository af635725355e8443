//! Storage in use: claims, volumes and their classes that are deleted go when nobody uses them any more.
//!
//! Their finalizers are put on by the server when they are created, so the server takes them off.

use homeostat_core::{Key, Prefix};
use serde_json::Value;

use super::collect::release;
use crate::backend::Backend;
use crate::kinds::core::persistent_volume::PERSISTENT_VOLUME;
use crate::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use crate::kinds::core::pod::POD;
use crate::kinds::storage::volume_attributes_class::VOLUME_ATTRIBUTES_CLASS;
use crate::object::{encode, meta};
use crate::status::Status;
use crate::storage::Storage;

const PODS: Storage<'static> = POD.storage();
const CLAIMS: Storage<'static> = PERSISTENT_VOLUME_CLAIM.storage();
const VOLUMES: Storage<'static> = PERSISTENT_VOLUME.storage();
const CLASSES: Storage<'static> = VOLUME_ATTRIBUTES_CLASS.storage();

/// The finalizer that keeps a stored thing of this resource while it is used.
fn protection(key: &Key) -> Option<&'static str> {
    match Storage::of_key(key) {
        CLAIMS => Some("kubernetes.io/pvc-protection"),
        VOLUMES => Some("kubernetes.io/pv-protection"),
        CLASSES => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

/// May the end of this object make storage free?
pub(super) fn is_user(key: &Key) -> bool {
    matches!(Storage::of_key(key), PODS | CLAIMS | VOLUMES)
}

/// Looks at an object marked for deletion: lets it go if it is unused storage, else remembers to look again.
pub(super) async fn look_at(backend: &Backend, key: &Key, object: &Value) -> Result<(), Status> {
    let Some(finalizer) = protection(key).filter(|finalizer| meta::has_finalizer(object, finalizer)) else {
        return Ok(());
    };
    // Before the look, so that a user who leaves meanwhile is not missed.
    backend.notices.set_waiting_storage(key, true);
    if is_used(backend, key, object) {
        return Ok(());
    }
    backend.notices.set_waiting_storage(key, false);
    release(backend, key, finalizer).await
}

fn is_used(backend: &Backend, key: &Key, object: &Value) -> bool {
    match Storage::of_key(key) {
        CLAIMS => any(backend, &PODS.prefix_in(key.namespace()), |pod| mounts(pod, key.name())),
        VOLUMES => {
            let claim = &object["spec"]["claimRef"];
            let name = |field: &str| claim[field].as_str().unwrap_or_default();
            let claim = CLAIMS.key(name("namespace"), name("name"));
            object["status"]["phase"] == "Bound" && backend.store.snapshot().get(&claim).is_some()
        }
        _ => [CLAIMS, VOLUMES].iter().any(|storage| {
            any(backend, &storage.prefix(), |one| one["spec"]["volumeAttributesClassName"] == key.name())
        }),
    }
}

fn any(backend: &Backend, prefix: &Prefix, is_wanted: impl Fn(&Value) -> bool) -> bool {
    backend.store.snapshot().range(prefix, "").any(|entry| is_wanted(&encode::decode(entry)))
}

/// Does the Pod use the claim? One that never got to a node does not.
fn mounts(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    pod["spec"]["nodeName"].is_string()
        && volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}
