//! Handles storage in use: releases deleted claims, volumes and classes once nothing uses them.
//!
//! The server adds their finalizers when they are created, so the server also removes them.

use homeostat_api::kinds::core::persistent_volume::PERSISTENT_VOLUME;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::storage::volume_attributes_class::VOLUME_ATTRIBUTES_CLASS;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::{Key, Prefix};
use serde_json::Value;

use super::garbage_collector::remove_finalizer;
use crate::backend::Backend;
use crate::stored::encode;
use crate::yielding_work::YieldingWork;

const PODS: ResourceIdentity<'static> = POD.storage();
const CLAIMS: ResourceIdentity<'static> = PERSISTENT_VOLUME_CLAIM.storage();
const VOLUMES: ResourceIdentity<'static> = PERSISTENT_VOLUME.storage();
const CLASSES: ResourceIdentity<'static> = VOLUME_ATTRIBUTES_CLASS.storage();

/// Returns the finalizer that protects an object of this resource while it is in use.
fn protection_finalizer(key: &Key) -> Option<&'static str> {
    match ResourceIdentity::of_key(key) {
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
    // This is registered before the check, so that a user of the storage that goes away in the meantime is not missed.
    backend.notices.add_waiting_storage(key);
    if is_used(backend, key, object).await {
        return Ok(());
    }
    backend.notices.remove_waiting_storage(key);
    remove_finalizer(backend, key, finalizer).await
}

async fn is_used(backend: &Backend, key: &Key, object: &Value) -> bool {
    match ResourceIdentity::of_key(key) {
        CLAIMS => {
            let is_user = |pod: &Value| uses_claim(pod, key.name(), object);
            any_object(backend, &PODS.prefix_in(key.namespace()), is_user).await
        }
        VOLUMES => {
            let claim = &object["spec"]["claimRef"];
            let name = |field: &str| claim[field].as_str().unwrap_or_default();
            let claim = CLAIMS.key(name("namespace"), name("name"));
            object["status"]["phase"] == "Bound" && backend.store.snapshot().get(&claim).is_some()
        }
        _ => {
            let is_user = |one: &Value| one["spec"]["volumeAttributesClassName"] == key.name();
            any_object(backend, &CLAIMS.prefix(), is_user).await
                || any_object(backend, &VOLUMES.prefix(), is_user).await
        }
    }
}

async fn any_object(backend: &Backend, prefix: &Prefix, is_wanted: impl Fn(&Value) -> bool) -> bool {
    let (snapshot, mut work) = (backend.store.snapshot(), YieldingWork::default());
    for entry in snapshot.range(prefix, "") {
        if is_wanted(&encode::parse_entry(entry)) {
            return true;
        }
        work.add(entry.bytes.len()).await;
    }
    false
}

/// Returns whether the Pod uses the claim. A Pod that was never bound to a node does not. An ephemeral volume uses the
/// claim that was created for it until its Pod has terminated and is only waiting to be removed.
fn uses_claim(pod: &Value, name: &str, claim: &Value) -> bool {
    let meta = &pod["metadata"];
    let is_shut_down = meta["deletionTimestamp"].is_string() && meta["deletionGracePeriodSeconds"] == 0;
    let mut owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_made_for_pod = owners.any(|owner| owner["controller"] == true && owner["uid"] == meta["uid"]);
    let is_own = |volume: &Value| {
        let names = [&meta["name"], &volume["name"]].map(|name| name.as_str().unwrap_or_default());
        volume["ephemeral"].is_object() && names.join("-") == name && is_made_for_pod && !is_shut_down
    };
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
        && volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == name || is_own(volume))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_uses_a_claim() {
        let check = |pod: Value, claim: Value, expected: bool| {
            let mut whole = json!({"metadata": {"name": "web", "uid": "1"}, "spec": {"nodeName": "one"}});
            for part in ["metadata", "spec"] {
                let more = pod[part].as_object().cloned().unwrap_or_default();
                whole[part].as_object_mut().unwrap().extend(more);
            }
            assert_eq!(uses_claim(&whole, "web-data", &claim), expected, "{whole}");
        };
        let owned = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid, "controller": true}]}});
        let named = json!([{"name": "x", "persistentVolumeClaim": {"claimName": "web-data"}}]);
        check(json!({"spec": {"volumes": named}}), json!({}), true);
        check(json!({"spec": {"volumes": named, "nodeName": null}}), json!({}), false);
        let own = json!([{"name": "data", "ephemeral": {}}]);
        check(json!({"spec": {"volumes": own}}), owned("1"), true);
        check(json!({"spec": {"volumes": own}}), owned("2"), false);
        let ending = json!({"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 0});
        check(json!({"metadata": ending, "spec": {"volumes": own}}), owned("1"), false);
        check(json!({"metadata": ending, "spec": {"volumes": named}}), owned("1"), true);
    }
}
