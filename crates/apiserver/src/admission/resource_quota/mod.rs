//! ResourceQuota: keeps the contents of a namespace within its quotas.
//!
//! The plugin is the last of the validating ones. It returns the steps that charge a write to the quotas; they are
//! committed together with the write.
//!
//! **Invariant:** usage is charged in the commit that uses it, and only if the quota has not changed since it was read.
//! If only one of two concurrent writes fits, only one succeeds, and a write that fails costs nothing.

mod limits;
mod scopes;
mod totals;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::quantity::Quantity;
use homeostat_store::{Entry, Expect, Op};
use serde_json::{Value, json};

use self::usage::{ChargedKind, missing_resources, usage_of};
use super::plugin::Plugin;
use super::pod_resources::{Amounts, add, parse_amounts};
use super::{AdmissionRequest, Operation};
use crate::backend::CommitStep;
use crate::seen_kinds::RareKind;
use crate::stored::encode;

pub(crate) use limits::limit_quotas;
pub(crate) use totals::recalculate;

pub(super) static PLUGIN: Plugin = Plugin::new(NAME, |_| false);

/// The name of the plugin.
pub(crate) const NAME: &str = "ResourceQuota";

/// Returns the steps that charge a write to the quotas of its namespace. Refuses a write that exceeds a quota. If the
/// usage of a quota has not been counted yet, it is counted first, instead of refusing the write.
pub(crate) async fn charge(
    request: &AdmissionRequest<'_>,
    object: &Value,
) -> Result<Vec<CommitStep>, Status> {
    let may_have_quotas = request.backend.seen_kinds.may_have(RareKind::ResourceQuota);
    if !may_have_quotas || request.namespace.is_empty() || !request.resource.namespaced {
        return Ok(Vec::new());
    }
    loop {
        if let Some(steps) = charge_counted(request, object)? {
            return Ok(steps);
        }
        // A count becomes more expensive the larger the namespace is, so one request counts, and the others use its
        // result.
        let _counting = request.backend.quota_counts.lock(request.namespace).await;
        if charge_counted(request, object)?.is_none() {
            recalculate(request.backend, request.namespace).await?;
        }
    }
}

/// Returns the steps that charge a write to the quotas; `None` if one of them has not been counted yet.
fn charge_counted(request: &AdmissionRequest<'_>, object: &Value) -> Result<Option<Vec<CommitStep>>, Status> {
    let snapshot = request.snapshot();
    let prefix = RESOURCE_QUOTA.storage().prefix_in(request.namespace);
    let mut entries = snapshot.range(&prefix, "").peekable();
    let kind = ChargedKind::of_resource(request.resource);
    if entries.peek().is_none() || !kind.is_charged_for(request, object) {
        return Ok(Some(Vec::new()));
    }
    let mut steps = Vec::new();
    for entry in entries {
        let quota = encode::parse_entry(entry);
        if quota["status"]["hard"].is_null() && !quota["spec"]["hard"].is_null() {
            return Ok(None);
        }
        steps.extend(charge_quota(request, (kind, object), (entry, quota))?);
    }
    Ok(Some(steps))
}

fn charge_quota(
    request: &AdmissionRequest<'_>,
    (kind, object): (ChargedKind, &Value),
    (entry, mut quota): (&Arc<Entry>, Value),
) -> Result<Option<CommitStep>, Status> {
    let hard = parse_amounts(&quota["status"]["hard"]);
    let restricted = hard.keys().filter(|name| kind.has_resource(request.resource, name));
    let restricted = restricted.map(String::as_str).collect::<Vec<_>>();
    if restricted.is_empty() || !scopes::matches(kind, &quota, object) {
        return Ok(None);
    }
    let name = meta::name(&quota).to_owned();
    if let Some(missing) = missing_resources(kind, &restricted, object) {
        return Err(request.forbidden(object, &format!("failed quota: {name}: must specify {missing}")));
    }
    let mut used = parse_amounts(&quota["status"]["used"]);
    if restricted.iter().any(|name| !used.contains_key(*name)) {
        let names = restricted.join(",");
        let why = format!("status unknown for quota: {name}, resources: {names}");
        return Err(request.forbidden(object, &why));
    }
    let delta = delta_of(request, (kind, object), &quota, &hard);
    if delta.is_empty() {
        return Ok(None);
    }
    let before = used.clone();
    add(&mut used, &delta);
    let exceeds = |name: &String| used[name].nanos() > hard[name].nanos();
    let exceeded = delta.keys().filter(|name| exceeds(name)).collect::<Vec<_>>();
    if !exceeded.is_empty() {
        let listed = |amounts: &Amounts| {
            let shown = exceeded.iter().map(|name| format!("{name}={}", amounts[*name]));
            shown.collect::<Vec<_>>().join(",")
        };
        let (requested, used, limited) = (listed(&delta), listed(&before), listed(&hard));
        let why = format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}");
        return Err(request.forbidden(object, &why));
    }
    quota["status"]["used"] = amounts_json(&used);
    Ok(Some(put_quota(request, entry, &quota)))
}

/// Returns how much a write adds to the usage of a quota. Amounts that stay the same or shrink add nothing.
fn delta_of(
    request: &AdmissionRequest<'_>,
    (kind, object): (ChargedKind, &Value),
    quota: &Value,
    hard: &Amounts,
) -> Amounts {
    let clock = &request.backend.clock;
    let mut delta = usage_of(kind, request.resource, object, clock);
    let old =
        request.old.filter(|old| request.operation == Operation::Update && scopes::matches(kind, quota, old));
    if let Some(old) = old {
        for (name, before) in usage_of(kind, request.resource, old, clock) {
            delta.entry(name).and_modify(|now| *now = now.minus(before));
        }
    }
    delta.retain(|name, amount| amount.nanos() > 0 && hard.contains_key(name));
    delta
}

fn put_quota(request: &AdmissionRequest<'_>, entry: &Arc<Entry>, quota: &Value) -> CommitStep {
    let table = request.backend.registry.table();
    CommitStep {
        key: entry.key.clone(),
        expect: Expect::At(entry.revision),
        op: Op::Put(encode::encode_stored_version(table.built_in(&RESOURCE_QUOTA), quota)),
        old: Some(Arc::clone(entry)),
    }
}

fn amounts_json(amounts: &BTreeMap<String, Quantity>) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect()
}
