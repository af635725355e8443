//! Provides storage for claims: each PersistentVolumeClaim gets a folder on the node.
//!
//! The node creates a StorageClass whose volumes are folders below its own folder, and makes it the default class if
//! there is none. `claim_controller` binds claims to an existing volume or to a new one. `volume_controller` writes the
//! phase of volumes and removes those whose claims are gone. `volume_match` decides which volume suits a claim.
//!
//! **Invariants:** a folder outlives Pods, node and server until its claim is gone and its policy says `Delete`. Only
//! folders that this node created are removed, and they are found by name, regardless of a volume's spec. Sizes are not
//! enforced. The binding mode `WaitForFirstConsumer` has no effect, because there is only one machine.

mod claim_controller;
mod volume_controller;
mod volume_match;

use homeostat_runtime::{BuiltController, from_json};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;

/// The class, named as in single-machine clusters such as kind.
const CLASS: &str = "standard";
/// The provisioner of the class: this node.
const PROVISIONER: &str = "homeostat.dev/folder";
/// The annotation of the default class, for claims that name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotation that names a volume's provisioner.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub(super) fn controls() -> [BuiltController; 2] {
    [claim_controller::control(), volume_controller::control()]
}

/// Creates the class, unless it exists. If that fails, the next start tries again.
pub(super) async fn create_class(client: &Client) {
    if let Err(error) = make_class(client).await {
        tracing::warn!(%error, "cannot create the StorageClass: PersistentVolumeClaims stay pending");
    }
}

async fn make_class(client: &Client) -> Result<(), kube::Error> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    let known = classes.list(&ListParams::default()).await?.items;
    if known.iter().any(|class| class.provisioner == PROVISIONER) {
        return Ok(());
    }
    let is_default = (!known.iter().any(is_default)).to_string();
    let class = from_json(&json!({
        "metadata": {"name": CLASS, "annotations": {IS_DEFAULT: is_default}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    }))
    .expect("a class written here is valid");
    match classes.create(&PostParams::default(), &class).await {
        // There is already a class with this name.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

fn is_default(class: &StorageClass) -> bool {
    annotation(class, IS_DEFAULT) == Some("true")
}

fn annotation<'a>(object: &'a impl Resource, name: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns whether the volume is a folder that this node created.
pub(super) fn is_ours(volume: &PersistentVolume) -> bool {
    annotation(volume, PROVISIONED_BY) == Some(PROVISIONER)
}

/// Returns the claim of a Pod's volume: a named one, or one created for this Pod alone.
pub(super) fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let named = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    let pod = pod.metadata.name.as_deref().unwrap_or_default();
    named.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)))
}

/// Returns a Pod's claimed volumes, each with its claim.
pub(super) fn claims(pod: &Pod) -> impl Iterator<Item = (&Volume, String)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some((volume, claim_name(pod, volume)?)))
}

/// Returns the claims that a Pod names.
pub(super) fn claim_names(pod: &Pod) -> Vec<String> {
    claims(pod).map(|(_, claim)| claim).collect()
}

/// Returns whether the claim was created for this Pod, not for a different Pod with the same name.
pub(super) fn is_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Describes why the claim is not bound to this volume, if it is not: each must name the other, and both must be bound.
///
/// Anyone who may write claims in one namespace can write a claim's spec and status; only the volume's own reference
/// says which claim it belongs to.
pub(super) fn describe_misbinding(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<String> {
    let name = volume.metadata.name.as_deref();
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let shown = format!("persistentvolume \"{}\"", name.unwrap_or_default());
    if volume_of(claim) != name {
        return Some(format!("the claim is not bound to {shown}"));
    }
    if !volume_match::is_bound_to(volume, claim) {
        return Some(format!("{shown} is not bound to this claim: its claimRef names another one, or none"));
    }
    (phase != "Bound").then(|| format!("{shown} is {phase:?} and not Bound"))
}

/// Returns the volume that the claim says it is bound to.
pub(super) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| is_bound && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_and_volume_must_name_each_other() {
        let check = |claim: (&str, &str), reference: serde_json::Value, phase: &str, words: Option<&str>| {
            let claim: PersistentVolumeClaim = serde_json::from_value(json!({
                "metadata": {"namespace": "a", "name": "disk", "uid": "1"},
                "spec": {"volumeName": claim.0}, "status": {"phase": claim.1}}))
            .unwrap();
            let volume: PersistentVolume = serde_json::from_value(json!({"metadata": {"name": "pv"},
                "spec": {"claimRef": reference}, "status": {"phase": phase}}))
            .unwrap();
            let why = describe_misbinding(&claim, &volume);
            assert_eq!(why.is_some(), words.is_some(), "{why:?}");
            assert!(words.is_none_or(|words| why.as_ref().unwrap().contains(words)), "{why:?}");
        };
        let of = |namespace: &str, name: &str, uid: &str| json!({"namespace": namespace, "name": name, "uid": uid});
        let other = Some("not bound to this claim");
        check(("pv", "Bound"), of("a", "disk", "1"), "Bound", None);
        check(("other", "Bound"), of("a", "disk", "1"), "Bound", Some("the claim is not bound"));
        check(("pv", "Pending"), of("a", "disk", "1"), "Bound", Some("the claim is not bound"));
        check(("pv", "Bound"), of("b", "disk", "1"), "Bound", other);
        check(("pv", "Bound"), of("a", "other", "1"), "Bound", other);
        check(("pv", "Bound"), of("a", "disk", "2"), "Bound", other);
        check(("pv", "Bound"), json!({"namespace": "a", "name": "disk"}), "Bound", other);
        check(("pv", "Bound"), json!(null), "Available", other);
        for phase in ["", "Available", "Released", "Failed"] {
            check(("pv", "Bound"), of("a", "disk", "1"), phase, Some("and not Bound"));
        }
    }
}
