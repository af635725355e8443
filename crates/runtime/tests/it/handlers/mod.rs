//! Tests handlers against the in-process server, with paused time: one file per kind of handler.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::handlers::{Diff, HandlerContext};
use homeostat_runtime::{Handlers, Result, StandardStatus};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::test_cluster::{Log, Running, TestCluster};

mod activities;
mod changes;
mod crashes;
mod daemons;
mod errors;
mod events;
mod fields;
mod filters;
mod handled_condition;
mod indexes;
mod kopf_patterns;
mod records;
mod sub_handlers;
mod takeovers;
mod timers;

/// The kind under test.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
pub(crate) struct GadgetSpec {
    #[serde(default)]
    pub(crate) size: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) users: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema, PartialEq)]
pub(crate) struct GadgetStatus {
    /// What the handler `create` returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) create: Option<Made>,
    /// What its sub-handler `one` returned.
    #[serde(rename = "create/one", default, skip_serializing_if = "Option::is_none")]
    pub(crate) create_one: Option<Made>,
    /// What the children report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) children: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outside: Option<String>,
    #[serde(flatten)]
    pub(crate) base: StandardStatus,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema, PartialEq)]
pub(crate) struct Made {
    pub(crate) name: String,
}

/// Starts a server with the kind.
pub(crate) async fn lab() -> TestCluster {
    TestCluster::serving(Gadget::crd()).await
}

/// Runs these handlers.
pub(crate) async fn run<L>(lab: &mut TestCluster, handlers: Handlers<Gadget, L>) -> Running {
    let running = lab.run(|operator| operator.control(handlers));
    lab.rest().await;
    running
}

/// Kills the operator and waits until it has ended.
pub(crate) async fn kill(lab: &TestCluster, running: &Running) {
    running.kill();
    lab.rest().await;
}

pub(crate) async fn gadget(lab: &TestCluster, name: &str, size: i64) -> Gadget {
    lab.create(&Gadget::new(name, GadgetSpec { size, ..GadgetSpec::default() })).await
}

pub(crate) async fn get(lab: &TestCluster, name: &str) -> Option<Gadget> {
    lab.api::<Gadget>().get_opt(name).await.expect("the server answers")
}

/// A handler that logs this text and succeeds.
pub(crate) fn says(
    log: &Log,
    words: &str,
) -> impl Fn(Arc<Gadget>, HandlerContext<Gadget>) -> std::future::Ready<Result<()>> + Clone + Send + Sync + 'static
{
    let (log, words) = (log.clone(), words.to_owned());
    move |_, _| {
        log.say(words.clone());
        std::future::ready(Ok(()))
    }
}

/// An update handler that logs what changed.
pub(crate) fn says_changes(
    log: &Log,
    words: &str,
) -> impl Fn(Diff<Gadget>, HandlerContext<Gadget>) -> std::future::Ready<Result<()>> + Clone + Send + Sync + 'static
{
    let (log, words) = (log.clone(), words.to_owned());
    move |diff, _| {
        let changes: Vec<String> = diff.changes.iter().map(ToString::to_string).collect();
        log.say(format!("{words} {}", changes.join(", ")));
        std::future::ready(Ok(()))
    }
}
