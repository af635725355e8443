//! Binds claims to a suitable volume, or to a new folder.
//!
//! Every step is a write that the next reconcile finds completed: first the volume is created or taken for the claim,
//! then the claim names it, then its status says so. After a crash in between, the next reconcile continues.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{
    Action, BuiltController, Context, Controller, ObjectName, Result, Severity, from_json,
};
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::{PROVISIONED_BY, PROVISIONER, is_default, volume_match};
use crate::node::NodeShared;

/// How often to recheck a waiting claim, as in Kubernetes: there may be a new volume or class.
const AGAIN: Duration = Duration::from_secs(15);

pub(super) fn control() -> BuiltController {
    Controller::<PersistentVolumeClaim>::new()
        .needs_state::<NodeShared>()
        .named("volume-claims")
        .watches::<PersistentVolume, _>(claim_of)
        .reads::<StorageClass>()
        .writes::<PersistentVolume>()
        .writes::<PersistentVolumeClaim>()
        .writes_status::<PersistentVolumeClaim>()
        .reconcile(reconcile)
}

fn claim_of(volume: &PersistentVolume) -> Option<ObjectName> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectName { namespace: reference.namespace.clone(), name: reference.name.clone()? })
}

async fn reconcile(claim: Arc<PersistentVolumeClaim>, cx: Context<PersistentVolumeClaim>) -> Result {
    let Some(spec) = &claim.spec else { return Ok(Action::await_change()) };
    if let Some(name) = spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        return bind_named_volume(&claim, name, &cx).await;
    }
    let Some(class) = &spec.storage_class_name else {
        return set_default_class(&claim, &cx).await;
    };
    let volumes = cx.list::<PersistentVolume>()?;
    if let Some(volume) = volume_match::best_volume(&volumes, &claim) {
        take_volume(&claim, volume, &cx).await?;
        cx.patch(&*claim, json!({"spec": {"volumeName": volume.metadata.name}})).await?;
        return Ok(Action::requeue_now());
    }
    match cx.get::<StorageClass>(&**class)? {
        Some(class) if class.provisioner == PROVISIONER => provision(&claim, spec, &class, &cx).await,
        Some(class) => Ok(report_waiting(&claim, &cx, "ExternalProvisioning", &describe_external(&class))),
        None if class.is_empty() => Ok(report_waiting(&claim, &cx, "FailedBinding", NO_CLASS)),
        None => {
            let message = format!("storageclass.storage.k8s.io \"{class}\" not found");
            Ok(report_waiting(&claim, &cx, "ProvisioningFailed", &message))
        }
    }
}

const NO_CLASS: &str = "no persistent volumes available for this claim and no storage class is set";

fn describe_external(class: &StorageClass) -> String {
    format!(
        "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system administrator",
        class.provisioner
    )
}

/// Reports that the claim is waiting, and for what.
fn report_waiting(
    claim: &PersistentVolumeClaim,
    cx: &Context<PersistentVolumeClaim>,
    reason: &str,
    message: &str,
) -> Action {
    let severity = if reason == "ProvisioningFailed" { Severity::Warning } else { Severity::Normal };
    cx.event(severity, reason, message);
    write_status(claim, "Pending", None, cx);
    Action::requeue(AGAIN)
}

/// Gives a claim without a class the default one; the newest, if there are several.
async fn set_default_class(claim: &PersistentVolumeClaim, cx: &Context<PersistentVolumeClaim>) -> Result {
    let classes = cx.list::<StorageClass>()?;
    let defaults = classes.iter().filter(|class| is_default(class));
    match defaults.max_by_key(|class| class.metadata.creation_timestamp.clone()) {
        Some(class) => {
            cx.patch(claim, json!({"spec": {"storageClassName": class.metadata.name}})).await?;
            Ok(Action::requeue_now())
        }
        None => Ok(report_waiting(claim, cx, "FailedBinding", NO_CLASS)),
    }
}

/// Handles a claim that names its volume: it is bound, will be bound, or has lost it.
async fn bind_named_volume(
    claim: &PersistentVolumeClaim,
    name: &str,
    cx: &Context<PersistentVolumeClaim>,
) -> Result {
    let Some(volume) = cx.get::<PersistentVolume>(name)? else {
        if super::volume_of(claim).is_some() {
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            cx.event(Severity::Warning, "ClaimLost", message);
            write_status(claim, "Lost", None, cx);
        }
        return Ok(Action::requeue(AGAIN));
    };
    if !volume_match::is_bound_to(&volume, claim) {
        if !volume_match::is_free(&volume, claim) {
            let message = format!("volume \"{name}\" already bound to a different claim.");
            return Ok(report_waiting(claim, cx, "FailedBinding", &message));
        }
        take_volume(claim, &volume, cx).await?;
    }
    write_status(claim, "Bound", Some(&volume), cx);
    Ok(Action::await_change())
}

/// Reserves the volume for the claim, unless it has changed in the meantime.
async fn take_volume(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    cx: &Context<PersistentVolumeClaim>,
) -> Result<()> {
    if !volume_match::is_bound_to(volume, claim) {
        let version = &volume.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"claimRef": reference(claim)}});
        cx.patch(volume, patch).await?;
    }
    Ok(())
}

fn reference(claim: &PersistentVolumeClaim) -> Value {
    let meta = &claim.metadata;
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace, "name": meta.name, "uid": meta.uid})
}

/// Writes the status if it differs.
fn write_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
    cx: &Context<PersistentVolumeClaim>,
) {
    let current = claim.status.clone().unwrap_or_default();
    let mut wanted = PersistentVolumeClaimStatus { phase: Some(phase.to_owned()), ..current.clone() };
    if let Some(spec) = volume.and_then(|volume| volume.spec.as_ref()) {
        wanted.access_modes.clone_from(&spec.access_modes);
        wanted.capacity.clone_from(&spec.capacity);
    }
    if wanted != current {
        cx.replace_status(&wanted);
    }
}

/// Creates a folder and the volume for it.
async fn provision(
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    class: &StorageClass,
    cx: &Context<PersistentVolumeClaim>,
) -> Result {
    if spec.volume_mode.as_deref() == Some("Block") {
        let message = "this node provides folders, not block devices: use volumeMode Filesystem";
        return Ok(report_waiting(claim, cx, "ProvisioningFailed", message));
    }
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let folder = cx.state::<NodeShared>().layout.claim(&name);
    make_folder(&folder)?;
    let volume: PersistentVolume = from_json(&json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec.access_modes, "volumeMode": spec.volume_mode,
            "capacity": spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
            "claimRef": reference(claim), "hostPath": {"path": folder, "type": "Directory"},
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": spec.storage_class_name},
    }))?;
    cx.create_unowned::<_, PersistentVolume>(volume).await?;
    cx.event(Severity::Normal, "ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
    Ok(Action::requeue_now())
}

/// Creates a folder that any user of any Pod can use; the folders above are closed to everyone else.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    const ALL: u32 = 0o777;
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(ALL))
}
