//! Tests the runtime under the simulator: elections and shards, where only one replica at a time writes and both
//! together do the work of one; and ordinary uses of features that were once broken (`regressions`).

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat::sim::{Budget, Cluster, Simulation, edit};
use homeostat_runtime::{Action, Context, Controller, Operator, Result, StandardStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod regressions;

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds; every lease renewal is work
/// for the simulator. `HOMEOSTAT_SIM_SCHEDULES` runs more.
const BUDGET: Budget = Budget { schedules: 30, seconds: 3600 };

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Sheet", namespaced, status = "SheetStatus")]
pub(crate) struct SheetSpec {
    #[serde(default)]
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct SheetStatus {
    #[serde(default)]
    text: String,
    /// What the notes on the sheet report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    children: BTreeMap<String, String>,
    #[serde(flatten)]
    base: StandardStatus,
}

fn sheet(name: &str, text: &str) -> Sheet {
    Sheet::new(name, SheetSpec { text: text.to_owned() })
}

fn copy_of(sheet: &Sheet) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(sheet.name_any());
    map.data = Some(BTreeMap::from([("text".to_owned(), sheet.spec.text.clone())]));
    map
}

/// Copies the text into a ConfigMap and into the status.
async fn reconcile(sheet: Arc<Sheet>, cx: Context<Sheet>) -> Result<Action> {
    cx.apply(copy_of(&sheet)).await?;
    cx.status(|status| status.text.clone_from(&sheet.spec.text));
    Ok(Action::await_change())
}

fn operator() -> Operator {
    Operator::new("sheets.demo.dev").crd::<Sheet>()
}

fn sheets() -> Operator {
    operator().control(Controller::<Sheet>::new().owns::<ConfigMap>().reconcile(reconcile))
}

/// Returns whether the status of every sheet has its text. This also holds after fewer steps, so that a failure can be
/// shrunk.
fn all_are_copied(cluster: &Cluster) -> bool {
    let is_copied = |sheet: Sheet| sheet.status.is_some_and(|status| status.text == sheet.spec.text);
    cluster.list::<Sheet>().into_iter().all(is_copied)
}

/// Two sheets, one of which is edited.
fn two_sheets(make: impl Fn() -> Operator + Send + Sync + 'static) -> Simulation {
    Simulation::new(make)
        .given(sheet("one", "a"))
        .given(sheet("two", "a"))
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "b".into()))
        .eventually(all_are_copied)
        .budget(BUDGET)
}

#[test]
fn an_election_survives() {
    two_sheets(|| sheets().leader_election()).replicas(2).check();
}

#[test]
fn shards_survive() {
    two_sheets(|| sheets().sharded(2)).replicas(2).check();
}
