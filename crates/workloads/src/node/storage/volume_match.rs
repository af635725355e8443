//! Decides which volume suits a claim: one that is free, large enough, selected, and has the right class, mode and
//! access modes. This module is pure.

use std::sync::Arc;

use homeostat_core::quantity;
use homeostat_runtime::Selector as _;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Returns the smallest volume that suits.
pub(super) fn best_volume<'a>(
    volumes: &'a [Arc<PersistentVolume>],
    claim: &PersistentVolumeClaim,
) -> Option<&'a Arc<PersistentVolume>> {
    let suits =
        |volume: &&Arc<PersistentVolume>| is_bound_to(volume, claim) || satisfies_claim(volume, claim);
    // A volume that names a claim names this one, and comes first regardless of its size.
    volumes.iter().filter(suits).min_by_key(|volume| (reference(volume).is_none(), capacity(volume)))
}

/// Returns whether the volume is bound to exactly this claim.
pub(super) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    reference(volume)
        .is_some_and(|reference| is_named(reference, claim) && reference.uid == claim.metadata.uid)
}

/// Returns whether the claim may have the volume: no claim has it, or it is reserved for a claim with this name.
pub(super) fn is_free(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let is_for = |reference: &ObjectReference| {
        reference.uid.as_deref().unwrap_or_default().is_empty() && is_named(reference, claim)
    };
    volume.metadata.deletion_timestamp.is_none() && reference(volume).is_none_or(is_for)
}

fn is_named(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    (&reference.name, &reference.namespace) == (&claim.metadata.name, &claim.metadata.namespace)
}

fn reference(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

fn satisfies_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(offered), Some(wanted)) = (&volume.spec, &claim.spec) else { return false };
    let class = |name: &Option<String>| name.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = offered.access_modes.as_deref().unwrap_or_default();
    let labels = volume.metadata.labels.as_ref();
    let label = |name: &str| labels.and_then(|labels| labels.get(name)).map(String::as_str);
    is_free(volume, claim)
        && class(&offered.storage_class_name) == class(&wanted.storage_class_name)
        && mode(&offered.volume_mode) == mode(&wanted.volume_mode)
        && wanted.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && capacity(volume) >= requested(claim)
        && wanted.selector.clone().is_none_or(|selector| selector.into_selector().matches(label))
}

fn capacity(volume: &PersistentVolume) -> u64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    bytes(capacity.and_then(|capacity| capacity.get("storage")))
}

fn requested(claim: &PersistentVolumeClaim) -> u64 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    bytes(resources.and_then(|resources| resources.requests.as_ref()?.get("storage")))
}

fn bytes(quantity: Option<&Quantity>) -> u64 {
    quantity
        .and_then(|quantity| quantity.0.parse::<quantity::Quantity>().ok()?.positive_wholes())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "calls read better with literals")]
    fn volume(name: &str, size: &str, more: Value) -> Arc<PersistentVolume> {
        let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let labels = json!({"size": size});
        let volume = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    #[test]
    fn the_smallest_that_suits() {
        let reference =
            |uid: Value| json!({"claimRef": {"namespace": "default", "name": "disk", "uid": uid}});
        let volumes = [
            volume("small", "1Gi", json!({})),
            volume("large", "9Gi", json!({})),
            volume("fast", "5Gi", json!({"storageClassName": "fast"})),
            volume(
                "taken",
                "4Gi",
                json!({"claimRef": {"namespace": "default", "name": "other", "uid": "2"}}),
            ),
            volume("former", "4Gi", reference(json!("0"))),
        ];
        let check = |volumes: &[Arc<PersistentVolume>], more: Value, expected: Option<&str>| {
            let mut spec =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let claim =
                json!({"metadata": {"namespace": "default", "name": "disk", "uid": "1"}, "spec": spec});
            let claim = serde_json::from_value(claim).unwrap();
            let found = best_volume(volumes, &claim).and_then(|volume| volume.metadata.name.clone());
            assert_eq!(found.as_deref(), expected, "{more}");
        };
        check(&volumes, json!({}), Some("large"));
        check(&volumes, json!({"resources": {"requests": {"storage": "500Mi"}}}), Some("small"));
        check(&volumes, json!({"storageClassName": "fast"}), Some("fast"));
        check(&volumes, json!({"storageClassName": "slow"}), None);
        check(&volumes, json!({"accessModes": ["ReadWriteMany"]}), None);
        check(&volumes, json!({"volumeMode": "Block"}), None);
        check(&volumes, json!({"selector": {"matchLabels": {"size": "1Gi"}}}), None);
        check(&volumes, json!({"selector": {"matchLabels": {"size": "9Gi"}}}), Some("large"));
        for (name, uid) in [("set-aside", json!(null)), ("own", json!("1"))] {
            let mut more = volumes.to_vec();
            more.push(volume(name, "20Gi", reference(uid)));
            check(&more, json!({}), Some(name));
        }
    }
}
