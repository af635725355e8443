//! The workload controllers, started when there is something for them to do.
//!
//! A control plane that only serves an operator's own kinds never starts them: their code stays on disk, their watches
//! are not opened. Waiting costs a cursor per kind.

use futures::future::select_all;
use homeostat_core::{Key, Prefix};
use homeostat_runtime::Operator;
use homeostat_store::{SharedStore, Watch};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Error;

/// What the controllers mind. Pods are among them because a Pod may wait for them alone.
const KINDS: &[(&str, &str)] = &[
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
    ("", "pods"),
    ("", "services"),
];

/// Runs the controllers until `stop`, from the first object on that concerns them.
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

/// Returns when an object of these kinds is there.
async fn first_work(store: &SharedStore) {
    if let Some(watches) = watches(store) {
        select_all(watches.into_iter().map(|watch| Box::pin(first_of(watch)))).await;
    }
}

/// What to wait on; none if there is work already, or no telling whether there is.
fn watches(store: &SharedStore) -> Option<Vec<Watch>> {
    let snapshot = store.snapshot();
    let watch = |prefix: Prefix| {
        let is_there = snapshot.range(&prefix, "").any(|entry| matters(&entry.key));
        store.watch(&prefix, snapshot.revision()).ok().filter(|_| !is_there)
    };
    KINDS.iter().map(|(group, resource)| watch(Prefix::resource(group, resource))).collect()
}

async fn first_of(mut watch: Watch) {
    // A watch that is cut off has missed something.
    while let Ok(events) = watch.next().await
        && !events.iter().any(|event| matters(&event.key))
    {}
}

/// The Service of the API server itself leads to no Pods.
fn matters(key: &Key) -> bool {
    key.as_str() != "/services/default/kubernetes"
}
