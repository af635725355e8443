//! Aggregated ClusterRoles show the rules they sum up. The authorizer resolves them by itself; this is for people, and for
//! programs that read roles.

use homeostat_core::Key;
use serde_json::Value;

use crate::auth::fill_aggregated;
use crate::backend::Backend;
use crate::kinds::rbac::cluster_role::CLUSTER_ROLE;
use crate::object::encode;
use crate::rewrite::rewrite;
use crate::status::Status;
use crate::storage::Storage;

/// Where ClusterRoles are kept.
pub(super) const STORAGE: Storage<'static> = CLUSTER_ROLE.storage();

/// The longest list of rules that is shown: with its metadata it still fits an object.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// Can so many rules be shown? If not, those shown so far stay; what is allowed does not depend on it.
fn is_shown(key: &Key, rules: &Value) -> bool {
    let bytes = rules.to_string().len();
    if bytes > SHOWN_BYTES_MAX {
        tracing::warn!(role = key.name(), bytes, "the role sums up more rules than an object can show");
    }
    bytes <= SHOWN_BYTES_MAX
}

/// Makes the stored rules of every aggregated role the sum of those it selects.
pub(super) async fn settle(backend: &Backend) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    let all = STORAGE.prefix();
    let mut roles =
        snapshot.range(&all, "").map(|entry| (entry.key.clone(), encode::decode(entry))).collect::<Vec<_>>();
    let before = roles.iter().map(|(_, role)| role["rules"].clone()).collect::<Vec<_>>();
    fill_aggregated(&mut roles);
    let table = backend.registry.table();
    let row = table.of_declared(&CLUSTER_ROLE);
    for ((key, role), before) in roles.iter().zip(before) {
        if role["rules"] != before && is_shown(key, &role["rules"]) {
            rewrite(backend, row, key, |stored| stored["rules"] = role["rules"].clone()).await?;
        }
    }
    Ok(())
}
