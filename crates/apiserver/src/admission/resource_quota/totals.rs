//! Counts what is used of a quota, for its status: after it was created or changed, and after something was deleted.
//!
//! **Invariant:** the count is written only if the quota is unchanged since the snapshot that was counted. Every write
//! that uses more changes the quota in its own commit, so no count can overlook one.

use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::status::Status;
use homeostat_core::quantity::Quantity;
use homeostat_store::{Error as StoreError, Op, Snapshot};
use serde_json::Value;

use super::amounts_json;
use super::scopes;
use super::usage::{ChargedKind, count_names, usage_of};
use crate::admission::pod_resources::{Amounts, add, parse_amounts};
use crate::backend::{Backend, commit_refusal};
use crate::stored::{convert, encode};

/// Writes the true status of all quotas of a namespace. Returns whether it has any.
pub(crate) async fn recalculate(backend: &Backend, namespace: &str) -> Result<bool, Status> {
    let prefix = RESOURCE_QUOTA.storage().prefix_in(namespace);
    let keys = backend.store.snapshot().range(&prefix, "").map(|entry| entry.key.clone()).collect::<Vec<_>>();
    let table = backend.registry.table();
    let resource = table.built_in(&RESOURCE_QUOTA);
    for key in &keys {
        loop {
            let snapshot = backend.store.snapshot();
            let Some(entry) = snapshot.get(key) else { break };
            let mut quota = encode::decode(entry);
            count_in(backend, &snapshot, namespace, &mut quota);
            let value = encode::encode(resource, &quota);
            if encode::is_same(entry, &value) {
                break;
            }
            match backend.commit(key.clone(), Some(entry), Op::Put(value)).await {
                Ok(_) => break,
                Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
                Err(error) => return Err(commit_refusal(&error)),
            }
        }
    }
    Ok(!keys.is_empty())
}

/// Sets the status of a quota to what is stored now.
pub(super) fn count(backend: &Backend, namespace: &str, quota: &mut Value) {
    count_in(backend, &backend.store.snapshot(), namespace, quota);
}

fn count_in(backend: &Backend, snapshot: &Snapshot, namespace: &str, quota: &mut Value) {
    let hard = parse_amounts(&quota["spec"]["hard"]);
    let mut used = Amounts::new();
    let table = backend.registry.table();
    for resource in table.stored().into_values().filter(|row| row.namespaced) {
        let kind = ChargedKind::of_resource(resource);
        let names = hard.keys().filter(|name| kind.has_resource(resource, name)).collect::<Vec<_>>();
        if names.is_empty() {
            continue;
        }
        for name in &names {
            used.entry((*name).clone()).or_insert(Quantity::from(0));
        }
        let prefix = resource.storage().prefix_in(namespace);
        let entries = snapshot.range(&prefix, "");
        if kind == ChargedKind::Other {
            // Counting needs no look into the objects. Scopes are for other kinds.
            let count = if scopes::matches(kind, quota, &Value::Null) { entries.count() } else { 0 };
            for name in count_names(resource).into_iter().filter(|name| hard.contains_key(name)) {
                used.insert(name, Quantity::from(count as u64));
            }
            continue;
        }
        for object in entries.map(|entry| convert::decode_stored(resource, entry)) {
            if scopes::matches(kind, quota, &object) {
                let mut usage = usage_of(kind, resource, &object, &backend.clock);
                usage.retain(|name, _| hard.contains_key(name));
                add(&mut used, &usage);
            }
        }
    }
    quota["status"]["hard"] = quota["spec"]["hard"].clone();
    quota["status"]["used"] = amounts_json(&used);
}
