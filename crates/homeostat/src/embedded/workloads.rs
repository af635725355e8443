//! Starts the workload controllers as soon as there is something for them to do.
//!
//! A control plane that only serves an operator's own kinds never starts them: their code is not loaded, and their
//! watches are not opened. Waiting costs one cursor per kind.

use futures::future::select_all;
use homeostat_core::{Key, Prefix};
use homeostat_runtime::Operator;
use homeostat_store::{SharedStore, Watch};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Error;

/// The kinds that the controllers handle. They include Pods because a Pod alone may need them.
const KINDS: &[(&str, &str)] = &[
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "services"),
];

/// Runs the controllers until `stop`, starting with the first object that concerns them.
pub(super) async fn run(
    operator: Operator,
    client: Client,
    store: SharedStore,
    stop: CancellationToken,
) -> Result<(), Error> {
    if stop.run_until_cancelled(first_work(&store)).await.is_none() {
        return Ok(());
    }
    Ok(operator.run_on(client, stop).await?)
}

/// Waits until there is an object of these kinds.
async fn first_work(store: &SharedStore) {
    if let Some(watches) = watches(store) {
        select_all(watches.into_iter().map(|watch| Box::pin(first_of(watch)))).await;
    }
}

/// Returns the watches to wait on; `None` if there is already work, or if that cannot be determined.
fn watches(store: &SharedStore) -> Option<Vec<Watch>> {
    let snapshot = store.snapshot();
    let watch = |prefix: Prefix| {
        let is_there = snapshot.range(&prefix, "").any(|entry| matters(&entry.key));
        store.watch(&prefix, snapshot.revision()).ok().filter(|_| !is_there)
    };
    KINDS.iter().map(|(group, resource)| watch(Prefix::resource(group, resource))).collect()
}

async fn first_of(mut watch: Watch) {
    // A watch that was interrupted has missed something.
    while let Ok(events) = watch.next().await
        && !events.iter().any(|event| matters(&event.key))
    {}
}

/// Returns whether the object concerns the controllers; the API server's own Service does not, because it has no Pods.
fn matters(key: &Key) -> bool {
    key.as_str() != "/services/default/kubernetes"
}
