//! Writes the phase of volumes, and removes those whose claims are gone.
//!
//! **Invariant:** a folder is removed only after the server itself has confirmed that the claim is gone, because a
//! cache may lag.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, ObjectName, Result, Severity};
use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeStatus,
};
use kube::Api;

use super::is_ours;
use crate::node::{NodeShared, remove_folder};

/// When to recheck a volume that is being deleted but whose claim still exists.
const AGAIN: Duration = Duration::from_secs(15);

pub(super) fn control() -> BuiltController {
    Controller::<PersistentVolume>::new()
        .needs_state::<NodeShared>()
        .named("volumes")
        .watches::<PersistentVolumeClaim, _>(volume_of)
        .writes::<PersistentVolume>()
        .writes_status::<PersistentVolume>()
        .cleanup_if(is_ours, remove_volume)
        .reconcile(reconcile)
}

fn volume_of(claim: &PersistentVolumeClaim) -> Option<ObjectName> {
    let name = claim.spec.as_ref()?.volume_name.as_deref()?;
    Some(ObjectName { namespace: None, name: name.to_owned() })
}

async fn reconcile(volume: Arc<PersistentVolume>, cx: Context<PersistentVolume>) -> Result {
    let taken = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(claim) = taken.filter(|claim| claim.uid.is_some()) else {
        write_status(&volume, "Available", &cx);
        return Ok(Action::await_change());
    };
    if claim_exists(claim, &cx).await? {
        write_status(&volume, "Bound", &cx);
        return Ok(Action::await_change());
    }
    write_status(&volume, "Released", &cx);
    if must_be_deleted(&volume) && is_ours(&volume) {
        cx.delete(&*volume).await?;
    } else if must_be_deleted(&volume) {
        let message =
            "this node deletes only volumes that it created: remove the data and the volume by hand";
        cx.event(Severity::Warning, "VolumeFailedDelete", message);
    }
    Ok(Action::await_change())
}

fn must_be_deleted(volume: &PersistentVolume) -> bool {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy == Some("Delete")
}

/// Returns whether the claim exists. Asks the server if the cache does not have it.
async fn claim_exists(claim: &ObjectReference, cx: &Context<PersistentVolume>) -> Result<bool> {
    let (namespace, name) = (claim.namespace.clone(), claim.name.clone().unwrap_or_default());
    let is_it = |found: &PersistentVolumeClaim| found.metadata.uid == claim.uid;
    let target = ObjectName { namespace: namespace.clone(), name: name.clone() };
    if cx.get::<PersistentVolumeClaim>(target)?.is_some_and(|found| is_it(&found)) {
        return Ok(true);
    }
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(cx.client().clone(), &namespace.unwrap_or_default());
    Ok(claims.get_opt(&name).await?.is_some_and(|found| is_it(&found)))
}

fn write_status(volume: &PersistentVolume, phase: &str, cx: &Context<PersistentVolume>) {
    let current = volume.status.clone().unwrap_or_default();
    let wanted = PersistentVolumeStatus { phase: Some(phase.to_owned()), ..current.clone() };
    if wanted != current {
        cx.replace_status(&wanted);
    }
}

/// Releases a volume that is being deleted. First removes its folder, if its policy says so and its claim is gone.
async fn remove_volume(volume: Arc<PersistentVolume>, cx: Context<PersistentVolume>) -> Result {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if let Some(claim) = claim
        && claim_exists(claim, &cx).await?
    {
        return Ok(Action::requeue(AGAIN));
    }
    if must_be_deleted(&volume) {
        let folder = cx.state::<NodeShared>().layout.claim(cx.key().name());
        tokio::task::spawn_blocking(move || remove_folder(&folder)).await??;
    }
    Ok(Action::await_change())
}
