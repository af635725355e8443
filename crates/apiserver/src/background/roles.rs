//! Writes the combined rules into aggregated ClusterRoles. The authorizer resolves them itself; the stored rules are
//! for people, and for programs that read roles.

use homeostat_api::kinds::rbac::cluster_role::CLUSTER_ROLE;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use serde_json::Value;

use crate::auth::fill_aggregated;
use crate::backend::Backend;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// The storage of ClusterRoles.
const STORAGE: ResourceIdentity<'static> = CLUSTER_ROLE.storage();

/// The maximum size of the rules that are shown: with its metadata, the role still fits into an object.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// Returns whether the rules are small enough to be shown. If not, the rules shown so far stay; permissions do not
/// depend on them.
fn can_be_shown(key: &Key, rules: &Value) -> bool {
    let bytes = rules.to_string().len();
    if bytes > SHOWN_BYTES_MAX {
        tracing::warn!(
            role = key.name(),
            bytes,
            "the aggregated role has more rules than fit into an object"
        );
    }
    bytes <= SHOWN_BYTES_MAX
}

/// Writes the combined rules of the selected roles into every aggregated role.
pub(super) async fn sync_aggregated(backend: &Backend) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    let all = STORAGE.prefix();
    let mut roles = snapshot
        .range(&all, "")
        .map(|entry| (entry.key.clone(), encode::parse_entry(entry)))
        .collect::<Vec<_>>();
    let before = roles.iter().map(|(_, role)| role["rules"].clone()).collect::<Vec<_>>();
    fill_aggregated(&mut roles);
    let table = backend.registry.table();
    let row = table.built_in(&CLUSTER_ROLE);
    for ((key, role), before) in roles.iter().zip(before) {
        if role["rules"] != before && can_be_shown(key, &role["rules"]) {
            update_stored_object((backend, ServerTask::Roles), row, key, |stored| {
                stored["rules"] = role["rules"].clone();
            })
            .await?;
        }
    }
    Ok(())
}
