//! What is done to a Pod rather than changed in it: binding it to a node, evicting it.

use std::slice;
use std::sync::{Arc, OnceLock};

use homeostat_core::Prefix;
use homeostat_core::selector::LabelSelector;
use serde_json::Value;

use super::admit::document;
use super::delete::{DeleteOptions, remove};
use super::options::WriteOptions;
use super::write::{Changed, change};
use super::{Answer, Call};
use crate::kinds::subresource;
use crate::object::view::View;
use crate::object::{encode, meta};
use crate::rewrite::rewrite;
use crate::status::Status;

/// Runs a binding or an eviction.
pub(super) async fn run(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let expected =
        if call.path.subresource == "binding" { ("v1", "Binding") } else { ("policy/v1", "Eviction") };
    let body = document(call, body, expected)?;
    let options = WriteOptions::of(call, "CreateOptions")?;
    if call.path.subresource == "binding" {
        let clock = call.backend.clock;
        change(call, &options, |pod| subresource::bind(pod, &body, &clock).map(Changed::new)).await?;
    } else {
        evict(call, &body).await?;
    }
    Ok(Answer::value(call, 201, &subresource::done()))
}

/// Binds the Pod that a Binding without a Pod's path is named after: the old way to say the same.
pub(super) async fn bind_named(mut call: Call, body: &[u8]) -> Result<Answer, Status> {
    let binding = document(&call, body, ("v1", "Binding"))?;
    let table = call.backend.registry.table();
    call.resource = Arc::clone(table.get("", "v1", "pods").expect("a built-in kind"));
    call.path.name = meta::name(&binding).into();
    call.path.subresource = "binding".into();
    run(&call, body).await
}

async fn evict(call: &Call, eviction: &Value) -> Result<(), Status> {
    let named = meta::name(eviction);
    if !named.is_empty() && named != &*call.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let snapshot = call.backend.store.snapshot();
    let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
    let view = View::of_entry(entry);
    let prefix = Prefix::namespace("policy", "poddisruptionbudgets", &call.path.namespace);
    let budgets = snapshot.range(&prefix, "").map(|entry| (entry.key.clone(), encode::decode(entry)));
    let selecting = budgets.filter(|(_, budget)| {
        LabelSelector::from_json(&budget["spec"]["selector"])
            .is_ok_and(|selector| selector.matches(|key| view.label(key)))
    });
    let (keys, budgets): (Vec<_>, Vec<_>) = selecting.unzip();
    let (pod, clock) = (encode::decode(entry), call.backend.clock);
    let is_budgeted = subresource::evicted(&pod, &budgets, &clock)?.is_some();
    let options = DeleteOptions::parse(&eviction["deleteOptions"])?;
    if !options.is_dry_run
        && is_budgeted
        && let Some(key) = keys.first()
    {
        let table = call.backend.registry.table();
        let resource = table.get("policy", "v1", "poddisruptionbudgets").expect("a built-in kind");
        // Somebody else may have spent it since: it is asked again under the write.
        let refusal = OnceLock::new();
        let spend = |budget: &mut Value| match subresource::evicted(&pod, slice::from_ref(budget), &clock) {
            Ok(Some(spent)) => *budget = spent,
            Ok(None) => {}
            Err(status) => refusal.set(status).unwrap_or_default(),
        };
        rewrite(&call.backend, resource, key, spend).await?;
        if let Some(refusal) = refusal.into_inner() {
            return Err(refusal);
        }
    }
    remove(&call.backend, &call.resource, &call.path.namespace, &call.path.name, &options).await.map(|_| ())
}
