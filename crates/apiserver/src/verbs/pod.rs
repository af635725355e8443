//! What is done to a Pod rather than changed in it: binding it to a node, evicting it.

use std::slice;
use std::sync::{Arc, OnceLock};

use homeostat_core::selector::LabelSelector;
use homeostat_core::{Key, Revision};
use homeostat_store::{Error as StoreError, Op, Snapshot};
use serde_json::Value;

use super::decode_body::document;
use super::delete::{DeleteOptions, check_preconditions, remove};
use super::options::WriteOptions;
use super::pipeline::{self, Draft, OnMissing};
use super::update::OTHER_NAMESPACE;
use super::{Answer, Call};
use crate::backend::refusal;
use crate::kinds::core::pod::POD;
use crate::kinds::policy::pod_disruption_budget::POD_DISRUPTION_BUDGET;
use crate::kinds::subresource::{self, Cost};
use crate::object::view::View;
use crate::object::{encode, meta};
use crate::rewrite::rewrite;
use crate::status::Status;

/// Runs a binding or an eviction.
pub(super) async fn run(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let expected =
        if call.path.subresource == "binding" { ("v1", "Binding") } else { ("policy/v1", "Eviction") };
    let body = document(call, body, expected)?;
    run_named(call, &body, expected.1).await
}

/// Binds the Pod that a Binding without a Pod's path is named after: the old way to say the same, but for the uid, which
/// it does not look at.
pub(super) async fn bind_named(mut call: Call, body: &[u8]) -> Result<Answer, Status> {
    let mut binding = document(&call, body, ("v1", "Binding"))?;
    meta::set(&mut binding, "uid", None);
    let table = call.backend.registry.table();
    call.resource = Arc::clone(table.of_declared(&POD));
    call.path.name = meta::name(&binding).into();
    call.path.subresource = "binding".into();
    run_named(&call, &binding, "Binding").await
}

async fn run_named(call: &Call, body: &Value, kind: &str) -> Result<Answer, Status> {
    let options = WriteOptions::of(call, "CreateOptions")?;
    let namespace = meta::namespace(body);
    if !namespace.is_empty() && namespace != &*call.path.namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    if meta::name(body) != &*call.path.name {
        return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    if kind == "Binding" {
        subresource::check_binding(body)?;
        let clock = call.backend.clock;
        let bind = |pod: &Value| subresource::bind(pod, body, &clock).map(Draft::new);
        pipeline::change(call, &options, OnMissing::Refuse, bind).await?;
    } else {
        let mut wanted = DeleteOptions::parse(&body["deleteOptions"])?;
        wanted.is_dry_run |= options.is_dry_run;
        evict(call, &wanted).await?;
    }
    Ok(Answer::value(call, 201, &subresource::done()))
}

/// Judges the Pod and lets it go; again, if it changed in between and the judgement held only for what was seen.
async fn evict(call: &Call, asked: &DeleteOptions) -> Result<(), Status> {
    loop {
        let snapshot = call.backend.store.snapshot();
        let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
        let pod = encode::decode(entry);
        let (keys, budgets) = guarding(call, &snapshot, &View::of_entry(entry));
        let cost = subresource::cost(&pod, &budgets, &call.backend.clock)?;
        let mut options = asked.clone();
        let is_any_version = asked.resource_version.is_none();
        let is_meant = asked.uid.as_deref().is_none_or(|uid| uid == meta::uid(&pod));
        if cost == Cost::NotReady || (cost == Cost::NotStarted && is_any_version) {
            options.resource_version = Some(entry.revision.to_string());
        }
        if let (Cost::Disruption(_), Some(key), false) = (&cost, keys.first(), options.is_dry_run) {
            pay(call, &pod, key).await?;
        }
        match (let_go(call, options).await, cost, budgets.first()) {
            (Err(refused), Cost::NotStarted, _) if refused.code == 409 && is_any_version && is_meant => {
                tokio::task::yield_now().await;
            }
            (Err(refused), Cost::NotReady, Some(budget)) if refused.code == 409 && is_any_version => {
                return Err(subresource::unobserved(budget));
            }
            (outcome, ..) => return outcome,
        }
    }
}

/// The budgets that select the Pod, with their keys.
fn guarding(call: &Call, snapshot: &Snapshot, pod: &View) -> (Vec<Key>, Vec<Value>) {
    let prefix = POD_DISRUPTION_BUDGET.storage().prefix_in(&call.path.namespace);
    let budgets = snapshot.range(&prefix, "").map(|entry| (entry.key.clone(), encode::decode(entry)));
    let selects = |budget: &Value| {
        LabelSelector::from_json(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches(|key| pod.label(key)))
    };
    budgets.filter(|(_, budget)| selects(budget)).unzip()
}

/// Takes the disruption from the budget. Somebody else may have spent it since: it is asked again under the write.
async fn pay(call: &Call, pod: &Value, key: &Key) -> Result<(), Status> {
    let table = call.backend.registry.table();
    let resource = table.of_declared(&POD_DISRUPTION_BUDGET);
    let refusal = OnceLock::new();
    let spend =
        |budget: &mut Value| match subresource::cost(pod, slice::from_ref(budget), &call.backend.clock) {
            Ok(Cost::Disruption(spent)) => *budget = spent,
            Ok(_) => {}
            Err(status) => refusal.set(status).unwrap_or_default(),
        };
    rewrite(&call.backend, resource, key, spend).await?;
    refusal.into_inner().map_or(Ok(()), Err)
}

/// Deletes the Pod, which says before that it was evicted.
async fn let_go(call: &Call, mut options: DeleteOptions) -> Result<(), Status> {
    if !options.is_dry_run {
        let revision = note_eviction(call, &options).await?;
        // The writer of that note was not somebody else.
        options.resource_version = options.resource_version.map(|_| revision.to_string());
    }
    remove(&call.backend, &call.resource, &call.path.namespace, &call.path.name, &options).await.map(|_| ())
}

async fn note_eviction(call: &Call, options: &DeleteOptions) -> Result<Revision, Status> {
    loop {
        let snapshot = call.backend.store.snapshot();
        let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
        let mut pod = encode::decode(entry);
        check_preconditions(&call.resource, &pod, entry, options)?;
        subresource::note_eviction(&mut pod, &call.backend.clock);
        let value = encode::encode(&call.resource, &pod);
        if encode::is_same(entry, &value) {
            return Ok(entry.revision);
        }
        match call.backend.commit(call.key(), Some(entry), Op::Put(value)).await {
            Ok(committed) => return Ok(committed.revision),
            Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => return Err(refusal(&error)),
        }
    }
}
