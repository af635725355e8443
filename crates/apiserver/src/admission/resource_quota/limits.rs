//! Limits how many quotas a namespace may have, and how large they may be together.
//!
//! Every write in the namespace is checked against each of its quotas and rewrites those that it is charged to, in the
//! same commit. kube-apiserver has no such limits: it writes one quota after the other, and its caller waits.

use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::Key;
use tokio::sync::OwnedMutexGuard;

use crate::backend::Backend;

/// The maximum number of quotas in a namespace: enough for every combination of scopes, and one for each of several
/// priority classes.
pub(super) const QUOTAS_MAX: usize = 64;
/// The maximum stored size of all quotas in a namespace: enough for twice the maximum number, at the usual 4 KB each.
const QUOTAS_BYTES_MAX: usize = 512 * 1024;

/// Refuses to write a quota if its namespace would then have too many or too large quotas. Until the result is dropped,
/// no other quota in the namespace can be written, so that only those of many concurrent writes succeed that fit.
pub(crate) async fn limit_quotas(
    backend: &Backend,
    resource: &Resource,
    key: &Key,
    bytes: usize,
) -> Result<Option<OwnedMutexGuard<()>>, Status> {
    if resource.storage() != RESOURCE_QUOTA.storage() {
        return Ok(None);
    }
    let guard = backend.quota_writes.lock(key.namespace()).await;
    let (snapshot, prefix) = (backend.store.snapshot(), RESOURCE_QUOTA.storage().prefix_in(key.namespace()));
    let (mut count, mut sum, mut old_bytes) = (1, bytes, 0);
    for entry in snapshot.range(&prefix, "") {
        if entry.key == *key {
            old_bytes = entry.bytes.len();
        } else {
            count += 1;
            sum += entry.bytes.len();
        }
    }
    let refuse = |why: String| Err(Status::forbidden(&resource.about(key.name()), &why));
    if count > QUOTAS_MAX && old_bytes == 0 {
        return refuse(format!("a namespace may have at most {QUOTAS_MAX} quotas"));
    }
    if sum > QUOTAS_BYTES_MAX && bytes > old_bytes {
        let most = QUOTAS_BYTES_MAX / 1024;
        return refuse(format!("the quotas of a namespace may have at most {most} KiB together"));
    }
    Ok(Some(guard))
}
