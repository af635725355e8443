//! Creates and deletes many Pods, and sends the events that users look for.
//!
//! Creation starts slowly and doubles: a template that the server refuses costs one request, not five hundred.

use std::sync::Arc;

use futures::future::join_all;
use homeostat_runtime::{Context, Error, Kind, Severity};
use k8s_openapi::api::core::v1 as core;

use super::partial_pod::PartialPod;

/// The maximum number of Pods created or deleted in one reconcile; the rest follow in the next one, so that no owner
/// starves others.
pub(crate) const BURST: usize = 500;

/// Creates `count` Pods; `make` receives the number of each. Stops after the first batch with a failure.
pub(crate) async fn create_pods<K: Kind>(
    cx: &Context<K>,
    count: usize,
    make: impl Fn(usize) -> core::Pod,
) -> Result<(), Error> {
    let count = count.min(BURST);
    let (mut done, mut batch) = (0, 1);
    while done < count {
        let numbers = done..count.min(done + batch);
        done = numbers.end;
        let created = join_all(numbers.map(|number| create_pod(cx, make(number)))).await;
        created.into_iter().collect::<Result<Vec<_>, _>>()?;
        batch *= 2;
    }
    Ok(())
}

/// Creates one Pod.
pub(crate) async fn create_pod<K: Kind>(cx: &Context<K>, pod: core::Pod) -> Result<Arc<PartialPod>, Error> {
    let created = cx.create::<_, PartialPod>(pod).await;
    match &created {
        Ok(pod) => cx.event(Severity::Normal, "SuccessfulCreate", format!("Created pod: {}", pod.name())),
        // The namespace is being deleted along with the owner, so there is nothing to report.
        Err(error) if error.is_namespace_ending() => {}
        Err(error) => {
            cx.event(Severity::Warning, "FailedCreate", format!("Error creating: {}", error_message(error)));
        }
    }
    created
}

/// Deletes these Pods.
pub(crate) async fn delete_pods<K: Kind>(cx: &Context<K>, pods: &[Arc<PartialPod>]) -> Result<(), Error> {
    let deleted = join_all(pods.iter().map(|pod| delete_pod(cx, pod))).await;
    deleted.into_iter().collect()
}

/// Deletes one Pod.
pub(crate) async fn delete_pod<K: Kind>(cx: &Context<K>, pod: &PartialPod) -> Result<(), Error> {
    match cx.delete(pod).await {
        Ok(true) => cx.event(Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {}", pod.name())),
        Ok(false) => {}
        Err(error) => {
            cx.event(Severity::Warning, "FailedDelete", format!("Error deleting: {}", error_message(&error)));
            return Err(error);
        }
    }
    Ok(())
}

/// Returns the server's own message, because users search for it.
pub(crate) fn error_message(error: &Error) -> String {
    match error {
        Error::Api { status, .. } => status.message.clone(),
        other => other.to_string(),
    }
}
