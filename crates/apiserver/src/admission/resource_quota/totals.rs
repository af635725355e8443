//! Counts the usage of quotas for their status: after a quota was created or changed, and after an object was deleted.
//!
//! All quotas of a namespace are counted in one pass over its objects, and other work continues in between.
//!
//! **Invariant:** the count is written only if the quota has not changed since the counted snapshot. Every write that
//! uses more changes the quota in its own commit, so no count can miss such a write.

use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::quantity::Quantity;
use homeostat_store::{Error as StoreError, Op, Snapshot};
use serde_json::Value;

use super::amounts_json;
use super::scopes;
use super::usage::{ChargedKind, count_names, usage_of};
use crate::admission::pod_resources::{Amounts, parse_amounts};
use crate::backend::{Backend, commit_refusal};
use crate::stored::{convert, encode};
use crate::yielding_work::YieldingWork;

/// Writes the actual usage into the status of all quotas of a namespace. Returns whether the namespace has any quotas.
/// Quotas that changed in the meantime are left to another count, which is requested.
pub(crate) async fn recalculate(backend: &Backend, namespace: &str) -> Result<bool, Status> {
    let (snapshot, prefix) = (backend.store.snapshot(), RESOURCE_QUOTA.storage().prefix_in(namespace));
    let entries = snapshot.range(&prefix, "").cloned().collect::<Vec<_>>();
    let mut counts =
        entries.iter().map(|entry| QuotaCount::new(encode::parse_entry(entry))).collect::<Vec<_>>();
    let bytes = entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
    count_all(backend, &snapshot, namespace, (&mut *counts, bytes)).await;
    let table = backend.registry.table();
    let resource = table.built_in(&RESOURCE_QUOTA);
    let mut is_outdated = false;
    for (entry, count) in entries.iter().zip(counts) {
        let value = encode::encode_stored_version(resource, &count.into_quota());
        if encode::is_same(entry, &value) {
            continue;
        }
        match backend.commit(entry.key.clone(), Some(entry), Op::Put(value)).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => is_outdated = true,
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
    if is_outdated {
        backend.notices.add_quota_count(namespace);
    }
    Ok(!entries.is_empty())
}

/// A quota and its usage counted so far.
struct QuotaCount {
    quota: Value,
    hard: Amounts,
    used: Amounts,
}

impl QuotaCount {
    fn new(quota: Value) -> Self {
        Self { hard: parse_amounts(&quota["spec"]["hard"]), used: Amounts::new(), quota }
    }

    /// Returns whether the quota limits this kind. If so, its usage is zero so far.
    fn begin(&mut self, kind: ChargedKind, resource: &Resource) -> bool {
        let mut is_concerned = false;
        for name in self.hard.keys().filter(|name| kind.has_resource(resource, name)) {
            is_concerned = true;
            self.used.entry(name.clone()).or_insert(Quantity::from(0));
        }
        is_concerned
    }

    fn add(&mut self, usage: &Amounts) {
        for (name, amount) in usage.iter().filter(|(name, _)| self.hard.contains_key(*name)) {
            self.used.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
        }
    }

    /// Returns the quota with the usage in its status.
    fn into_quota(mut self) -> Value {
        self.quota["status"]["hard"] = self.quota["spec"]["hard"].clone();
        self.quota["status"]["used"] = amounts_json(&self.used);
        self.quota
    }
}

/// Counts the objects in a namespace for its quotas, which have this stored size.
async fn count_all(
    backend: &Backend,
    snapshot: &Snapshot,
    namespace: &str,
    (counts, quota_bytes): (&mut [QuotaCount], usize),
) {
    let table = backend.registry.table();
    let mut work = YieldingWork::default();
    for resource in table.stored().into_values().filter(|row| row.namespaced) {
        let kind = ChargedKind::of_resource(resource);
        let mut concerned = counts
            .iter_mut()
            .filter_map(|count| count.begin(kind, resource).then_some(count))
            .collect::<Vec<_>>();
        if concerned.is_empty() {
            continue;
        }
        let prefix = resource.storage().prefix_in(namespace);
        let entries = snapshot.range(&prefix, "");
        if kind == ChargedKind::Other {
            // Counting does not need the objects themselves. Scopes only apply to other kinds.
            let count = Quantity::from(entries.count() as u64);
            let usage = count_names(resource).into_iter().map(|name| (name, count)).collect();
            add_to_matching(&mut concerned, kind, (&Value::Null, &usage));
            continue;
        }
        for entry in entries {
            let object = convert::decode_stored(resource, entry);
            let usage = usage_of(kind, resource, &object, &backend.clock);
            add_to_matching(&mut concerned, kind, (&object, &usage));
            work.add(entry.bytes.len() + quota_bytes).await;
        }
    }
}

/// Adds the usage of an object to the quotas whose scopes it is in.
fn add_to_matching(counts: &mut [&mut QuotaCount], kind: ChargedKind, (object, usage): (&Value, &Amounts)) {
    for count in counts {
        if scopes::matches(kind, &count.quota, object) {
            count.add(usage);
        }
    }
}
