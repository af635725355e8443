//! Election and shards under the simulator: whatever goes wrong with two replicas, only one at a time writes, and both together
//! do the work of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat::sim::{Budget, Simulation, edit};
use homeostat_runtime::{Action, Context, Controller, Operator, Result, StandardStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sample of the single faults, as many as an unoptimized build does in a few seconds; every renewal of a lease is work for
/// the simulator. `HOMEOSTAT_SIM_SCHEDULES` tries more.
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
    #[serde(flatten)]
    base: StandardStatus,
}

fn sheet(name: &str, text: &str) -> Sheet {
    Sheet::new(name, SheetSpec { text: text.to_owned() })
}

/// Copies the text into a ConfigMap and into the status.
async fn reconcile(sheet: Arc<Sheet>, cx: Context<Sheet>) -> Result<Action> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(sheet.name_any());
    map.data = Some(BTreeMap::from([("text".to_owned(), sheet.spec.text.clone())]));
    cx.apply(map).await?;
    cx.status(|status| status.text.clone_from(&sheet.spec.text));
    Ok(Action::await_change())
}

fn sheets() -> Operator {
    let sheets = Controller::<Sheet>::new().owns::<ConfigMap>().reconcile(reconcile);
    Operator::new("sheets.demo.dev").crd::<Sheet>().control(sheets)
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .replicas(2)
        .given(sheet("one", "a"))
        .given(sheet("two", "a"))
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "b".to_owned()))
        .eventually(|cluster| {
            let texts = cluster.list::<Sheet>().into_iter().filter_map(|sheet| Some(sheet.status?.text));
            texts.collect::<Vec<_>>() == ["b", "a"]
        })
        .budget(BUDGET)
}

#[test]
fn an_election_survives() {
    simulation(|| sheets().leader_election()).check();
}

#[test]
fn shards_survive() {
    simulation(|| sheets().sharded(2)).check();
}
