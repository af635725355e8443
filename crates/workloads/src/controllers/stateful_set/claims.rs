//! Determines the volume claims of a StatefulSet's Pods: their names, and the object with which they are deleted. This
//! module is pure.
//!
//! Claims outlive their Pods unless the retention policy says otherwise. In that case, the claim is owned by the object
//! with which it is deleted: the set, or the Pod when it is scaled away.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use super::plan::ordinals;
use crate::controllers::partial_pod::PartialPod;

fn claim_name(template: &PersistentVolumeClaim, set: &StatefulSet, ordinal: i32) -> String {
    let claim = template.metadata.name.as_deref().unwrap_or_default();
    format!("{claim}-{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default())
}

/// Returns the claims of the Pod with this ordinal.
pub(super) fn claims_of_pod(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    ordinal: i32,
) -> Vec<PersistentVolumeClaim> {
    let templates = spec.volume_claim_templates.iter().flatten();
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(claim_name(template, set, ordinal));
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        claim.status = None;
        claim
    };
    templates.map(claim).collect()
}

/// Mounts its claims in the Pod with this ordinal; they replace volumes with the same names.
pub(super) fn mount_claims(pod: &mut PodSpec, set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32) {
    let templates = spec.volume_claim_templates.as_deref().unwrap_or_default();
    let mut volumes: Vec<Volume> = templates
        .iter()
        .map(|template| Volume {
            name: template.metadata.name.clone().unwrap_or_default(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(template, set, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    let others = pod.volumes.take().unwrap_or_default();
    let is_other = |volume: &Volume| !volumes.iter().any(|claimed| claimed.name == volume.name);
    let others: Vec<Volume> = others.into_iter().filter(is_other).collect();
    volumes.extend(others);
    pod.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
}

/// The object with which a claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimOwner {
    Nobody,
    Set,
    Pod,
}

/// Returns the owner of the claims of the Pod with this ordinal.
pub(super) fn owner_of_claims(spec: &StatefulSetSpec, ordinal: i32) -> ClaimOwner {
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    let is_delete = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
    let when_scaled = is_delete(policy.and_then(|policy| policy.when_scaled.as_ref()));
    let when_deleted = is_delete(policy.and_then(|policy| policy.when_deleted.as_ref()));
    match (when_scaled && !ordinals(spec).contains(&ordinal), when_deleted) {
        (true, _) => ClaimOwner::Pod,
        (false, true) => ClaimOwner::Set,
        (false, false) => ClaimOwner::Nobody,
    }
}

/// Returns the owner references that the claim should have; `None` if it has them already.
pub(super) fn owner_references(
    claim: &PersistentVolumeClaim,
    owner: ClaimOwner,
    set: &StatefulSet,
    pod: &PartialPod,
) -> Option<Vec<OwnerReference>> {
    let current = claim.metadata.owner_references.clone().unwrap_or_default();
    let wanted = match owner {
        ClaimOwner::Nobody => None,
        ClaimOwner::Set => set.controller_owner_ref(&()),
        ClaimOwner::Pod => pod.controller_owner_ref(&()),
    };
    let is_of = |reference: &OwnerReference, kind: &str, name: Option<&String>| {
        reference.kind == kind && Some(&reference.name) == name
    };
    let mut references = current.clone();
    references.retain(|reference| {
        let is_ours = is_of(reference, "StatefulSet", set.metadata.name.as_ref())
            || is_of(reference, "Pod", pod.metadata.name.as_ref());
        !is_ours || wanted.as_ref().is_some_and(|wanted| wanted.uid == reference.uid)
    });
    let is_foreign = references.iter().any(|reference| {
        reference.controller == Some(true) && wanted.as_ref().is_none_or(|wanted| wanted.uid != reference.uid)
    });
    if let Some(wanted) = wanted
        && !is_foreign
        && !references.iter().any(|reference| reference.uid == wanted.uid)
    {
        references.push(OwnerReference { block_owner_deletion: Some(true), ..wanted });
    }
    (references != current).then_some(references)
}

/// Returns whether the claim belongs to a former Pod with this name and is being deleted with it.
pub(super) fn is_leaving(claim: &PersistentVolumeClaim, pod: &str) -> bool {
    let references = claim.metadata.owner_references.as_deref().unwrap_or_default();
    claim.metadata.deletion_timestamp.is_some()
        || references.iter().any(|reference| reference.kind == "Pod" && reference.name == pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(when_scaled: &str, when_deleted: &str, kept: ClaimOwner, condemned: ClaimOwner) {
        let policy = json!({"whenScaled": when_scaled, "whenDeleted": when_deleted});
        let spec = json!({"replicas": 1, "selector": {}, "template": {}, "persistentVolumeClaimRetentionPolicy": policy});
        let spec = serde_json::from_value(spec).unwrap();
        assert_eq!((owner_of_claims(&spec, 0), owner_of_claims(&spec, 1)), (kept, condemned), "{policy}");
    }

    #[test]
    fn who_takes_a_claim_along() {
        check("Retain", "Retain", ClaimOwner::Nobody, ClaimOwner::Nobody);
        check("Retain", "Delete", ClaimOwner::Set, ClaimOwner::Set);
        check("Delete", "Retain", ClaimOwner::Nobody, ClaimOwner::Pod);
        check("Delete", "Delete", ClaimOwner::Set, ClaimOwner::Pod);
    }
}
