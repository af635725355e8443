//! What is done to a Pod rather than changed in it: binding it to a node, evicting it.

use homeostat_core::Prefix;
use homeostat_core::selector::LabelSelector;
use serde_json::Value;

use super::admit::read;
use super::delete::{DeleteOptions, remove};
use super::options::WriteOptions;
use super::write::{Changed, change};
use super::{Answer, Call};
use crate::kinds::subresource;
use crate::object::encode;
use crate::object::view::View;
use crate::rewrite::rewrite;
use crate::status::Status;

/// Runs a binding or an eviction.
pub(super) async fn run(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let expected =
        if call.path.subresource == "binding" { ("v1", "Binding") } else { ("policy/v1", "Eviction") };
    let body = read(call, body, false, expected)?.value;
    let options = WriteOptions::of(call, "CreateOptions")?;
    if call.path.subresource == "binding" {
        let clock = call.backend.clock;
        change(call, &options, |pod| subresource::bind(pod, &body, &clock).map(Changed::new)).await?;
    } else {
        evict(call, &body).await?;
    }
    Ok(Answer::value(call, 201, &subresource::done()))
}

async fn evict(call: &Call, eviction: &Value) -> Result<(), Status> {
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
    let spent = subresource::evicted(&encode::decode(entry), &budgets)?;
    let options = DeleteOptions::parse(&eviction["deleteOptions"])?;
    if !options.is_dry_run
        && let (Some(spent), Some(key)) = (spent, keys.first())
    {
        let table = call.backend.registry.table();
        let resource = table.get("policy", "v1", "poddisruptionbudgets").expect("a built-in kind");
        rewrite(&call.backend, resource, key, |budget| budget["status"] = spent["status"].clone()).await?;
    }
    remove(&call.backend, &call.resource, &call.path.namespace, &call.path.name, &options).await.map(|_| ())
}
