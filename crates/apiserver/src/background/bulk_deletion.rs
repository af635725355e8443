//! Deletes all objects of a resource or of a namespace, for the reconcilers that handle definitions and namespaces.

use futures::{TryStreamExt as _, stream};
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::{Key, Prefix};

use crate::backend::Backend;
use crate::verbs::{DeleteOptions, PropagationPolicy, remove};
use crate::write_history::ServerTask;

/// Enough that many removals share one disk sync, few enough that clients' writes find room in the queue.
const REMOVALS_AT_ONCE: usize = 64;

/// Deletes everything under a prefix on behalf of a background task, several objects concurrently, so that the store
/// makes them durable together.
pub(super) async fn remove_under(
    (backend, task): (&Backend, ServerTask),
    resource: &Resource,
    prefix: &Prefix,
) -> Result<(), Status> {
    let options = &DeleteOptions { policy: Some(PropagationPolicy::Background), ..DeleteOptions::default() };
    let snapshot = backend.store.snapshot();
    let keys = snapshot.range(prefix, "").map(|entry| Ok(entry.key.clone())).collect::<Vec<_>>();
    let removed = stream::iter(keys).try_for_each_concurrent(REMOVALS_AT_ONCE, |key: Key| async move {
        match remove((backend, task), resource, (key.namespace(), key.name()), options).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    });
    removed.await
}
