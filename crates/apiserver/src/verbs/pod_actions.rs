//! Implements actions on a Pod that are not plain changes to it: binding it to a node, evicting it.

use std::slice;
use std::sync::{Arc, OnceLock};

use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::policy::pod_disruption_budget::POD_DISRUPTION_BUDGET;
use homeostat_api::kinds::subresource::{self, EvictionCost};
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::selector::LabelSelector;
use homeostat_core::{Key, Revision};
use homeostat_store::{Error as StoreError, Op, Snapshot};
use serde_json::Value;

use super::decode_body::decode_document;
use super::delete::{DeleteOptions, check_preconditions, remove_evicted};
use super::options::WriteOptions;
use super::pipeline::{self, ObjectDraft, OnMissing, admit_document};
use super::update::OTHER_NAMESPACE;
use super::{Answer, AuthorizedRequest};
use crate::admission::Operation;
use crate::backend::commit_refusal;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::stored::labels_and_owners::LabelsAndOwners;
use crate::write_history::ServerTask;
use crate::yielding_work::YieldingWork;

/// Runs a binding or an eviction.
pub(super) async fn bind_or_evict(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let expected =
        if call.path.subresource == "binding" { ("v1", "Binding") } else { ("policy/v1", "Eviction") };
    let body = decode_document(call, body, expected)?;
    run_named(call, &body, expected.1).await
}

/// Binds a Pod with a Binding that was posted without a Pod's path, and has the name of the Pod. This is the old way
/// to bind, except that it ignores the uid.
pub(super) async fn bind_named(mut call: AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let mut binding = decode_document(&call, body, ("v1", "Binding"))?;
    meta::set(&mut binding, "uid", None);
    let table = call.backend.registry.table();
    call.resource = Arc::clone(table.built_in(&POD));
    call.path.name = meta::name(&binding).into();
    call.path.subresource = "binding".into();
    run_named(&call, &binding, "Binding").await
}

async fn run_named(call: &AuthorizedRequest, body: &Value, kind: &str) -> Result<Answer, Status> {
    let options = WriteOptions::parse(call, "CreateOptions")?;
    let namespace = meta::namespace(body);
    if !namespace.is_empty() && namespace != &*call.path.namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    if meta::name(body) != &*call.path.name {
        return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    let mut body = body.clone();
    admit_document(call, Operation::Create, &mut body, options.is_dry_run).await?;
    let body = &body;
    if kind == "Binding" {
        subresource::check_binding(body)?;
        let clock = call.backend.clock;
        let bind = |pod: &Value| subresource::bind(pod, body, &clock).map(ObjectDraft::new);
        pipeline::write_with_retries(call, &options, OnMissing::Refuse, bind).await?;
    } else {
        let mut wanted = DeleteOptions::from_json(&body["deleteOptions"])?;
        wanted.is_dry_run |= options.is_dry_run;
        evict(call, &wanted).await?;
    }
    Ok(Answer::value(call, 201, &subresource::done()))
}

/// Evicts the Pod if its budgets allow it. Retries if the Pod changed in the meantime and the decision was only valid
/// for the state that was read.
async fn evict(call: &AuthorizedRequest, asked: &DeleteOptions) -> Result<(), Status> {
    loop {
        let snapshot = call.backend.store.snapshot();
        let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
        let pod = encode::parse_entry(entry);
        let (keys, budgets) = budgets_of_pod(call, &snapshot, &LabelsAndOwners::from_entry(entry)).await;
        let cost = subresource::cost(&pod, &budgets, &call.backend.clock)?;
        let mut options = asked.clone();
        let is_any_version = asked.resource_version.is_none();
        let is_meant = asked.uid.as_deref().is_none_or(|uid| uid == meta::uid(&pod));
        if cost == EvictionCost::NotReady || (cost == EvictionCost::NotStarted && is_any_version) {
            options.resource_version = Some(entry.revision.to_string());
        }
        if let (EvictionCost::Disruption(_), Some(key), false) = (&cost, keys.first(), options.is_dry_run) {
            spend_budget(call, &pod, key).await?;
        }
        match (delete_evicted(call, options).await, cost, budgets.first()) {
            (Err(refused), EvictionCost::NotStarted, _)
                if refused.code == 409 && is_any_version && is_meant =>
            {
                tokio::task::yield_now().await;
            }
            (Err(refused), EvictionCost::NotReady, Some(budget)) if refused.code == 409 && is_any_version => {
                return Err(subresource::unobserved(budget));
            }
            (outcome, ..) => return outcome,
        }
    }
}

/// Returns the budgets that select the Pod, with their keys: two of them at most, since an eviction with more than one is
/// refused.
async fn budgets_of_pod(
    call: &AuthorizedRequest,
    snapshot: &Snapshot,
    pod: &LabelsAndOwners,
) -> (Vec<Key>, Vec<Value>) {
    let prefix = POD_DISRUPTION_BUDGET.storage().prefix_in(&call.path.namespace);
    let selects = |budget: &Value| {
        LabelSelector::from_json(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches(|key| pod.label(key)))
    };
    let (mut keys, mut budgets, mut work) = (Vec::new(), Vec::new(), YieldingWork::default());
    for entry in snapshot.range(&prefix, "") {
        let budget = encode::parse_entry(entry);
        if selects(&budget) {
            keys.push(entry.key.clone());
            budgets.push(budget);
        }
        if budgets.len() == 2 {
            break;
        }
        work.add(entry.bytes.len()).await;
    }
    (keys, budgets)
}

/// Takes the disruption from the budget. Another request may have used it up in the meantime, so it is checked again
/// as part of the write.
async fn spend_budget(call: &AuthorizedRequest, pod: &Value, key: &Key) -> Result<(), Status> {
    let table = call.backend.registry.table();
    let resource = table.built_in(&POD_DISRUPTION_BUDGET);
    let refusal = OnceLock::new();
    let spend =
        |budget: &mut Value| match subresource::cost(pod, slice::from_ref(budget), &call.backend.clock) {
            Ok(EvictionCost::Disruption(spent)) => *budget = spent,
            Ok(_) => {}
            Err(status) => refusal.set(status).unwrap_or_default(),
        };
    update_stored_object((&call.backend, ServerTask::Evictions), resource, key, spend).await?;
    refusal.into_inner().map_or(Ok(()), Err)
}

/// Deletes the Pod, after recording in it that it was evicted.
async fn delete_evicted(call: &AuthorizedRequest, mut options: DeleteOptions) -> Result<(), Status> {
    if !options.is_dry_run {
        let revision = note_eviction(call, &options).await?;
        // That record is our own write, so it is not a conflict.
        options.resource_version = options.resource_version.map(|_| revision.to_string());
    }
    remove_evicted(call, &options).await.map(drop)
}

async fn note_eviction(call: &AuthorizedRequest, options: &DeleteOptions) -> Result<Revision, Status> {
    loop {
        let snapshot = call.backend.store.snapshot();
        let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
        let mut pod = encode::parse_entry(entry);
        check_preconditions(&call.resource, &pod, entry, options)?;
        subresource::note_eviction(&mut pod, &call.backend.clock);
        let value = encode::encode_stored_version(&call.resource, &pod);
        if encode::is_same(entry, &value) {
            return Ok(entry.revision);
        }
        match call.backend.commit(call.key(), Some(entry), Op::Put(value)).await {
            Ok(committed) => return Ok(committed.revision),
            Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
}
