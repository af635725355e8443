//! Removes the finalizer from Pods whose Job is gone, finished or being deleted, because nothing will count them
//! anymore.

use std::sync::Arc;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Kind, Predicate, Result};
use k8s_openapi::api::batch::v1::Job;
use kube::Resource;
use serde_json::json;

use super::progress::{FINALIZER, is_tracked};
use crate::controllers::ownership::controller_of;
use crate::controllers::partial_pod::PartialPod;

pub(super) fn control() -> BuiltController {
    Controller::<PartialPod>::new()
        .named("job-pod-release")
        .when(Predicate::new(|_, new: &PartialPod| is_tracked(new)))
        .references::<Job, _>(|pod: &PartialPod| job_of(pod).map(|(name, _)| name))
        .to_the_end()
        .reconcile(reconcile)
}

/// Returns the name and uid of the Job that controls this tracked Pod.
fn job_of(pod: &PartialPod) -> Option<(String, String)> {
    let reference = controller_of(&pod.metadata).filter(|reference| reference.kind == "Job")?;
    is_tracked(pod).then(|| (reference.name.clone(), reference.uid.clone()))
}

async fn reconcile(pod: Arc<PartialPod>, cx: Context<PartialPod>) -> Result {
    if !is_tracked(&pod) {
        return Ok(Action::await_change());
    }
    let job = match job_of(&pod) {
        Some((name, uid)) => cx.get::<Job>(name)?.filter(|job| job.meta().uid.as_ref() == Some(&uid)),
        None => None,
    };
    let is_counted_by =
        |job: Arc<Job>| job.metadata.deletion_timestamp.is_none() && super::finished(&job).is_none();
    if !job.is_some_and(is_counted_by) {
        remove_finalizer(&cx, &pod).await?;
    }
    Ok(Action::await_change())
}

/// Removes the finalizer. A Pod that is already gone is not an error.
pub(super) async fn remove_finalizer<K: Kind>(cx: &Context<K>, pod: &PartialPod) -> Result<(), Error> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    match cx.patch_strategic(pod, patch).await {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}
