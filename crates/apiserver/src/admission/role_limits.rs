//! Refuses Roles and RoleBindings that would make decisions about their namespace slow. How much is too much is known
//! to the authorizer, which compares every request in the namespace with them.

use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::Key;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::auth::limits_role_writes;
use crate::backend::Backend;

/// Refuses to write a Role or RoleBinding if its namespace would then have too many rules or bindings. Until the result
/// is dropped, no other one in the namespace can be written, so that only those of many concurrent writes succeed that
/// fit.
pub(crate) async fn limit_roles(
    backend: &Backend,
    resource: &Resource,
    key: &Key,
    object: &Value,
) -> Result<Option<OwnedMutexGuard<()>>, Status> {
    if !limits_role_writes(resource.storage()) {
        return Ok(None);
    }
    let guard = backend.role_writes.lock(key.namespace()).await;
    let checked = backend.authorizer.check_role_limits(resource.storage(), key, object);
    checked.map_err(|why| Status::forbidden(&resource.about(key.name()), &why))?;
    Ok(Some(guard))
}
