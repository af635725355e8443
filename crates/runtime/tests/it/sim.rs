//! The runtime under the simulator: elections and shards, where only one replica at a time writes and both together do the work
//! of one; and ordinary uses of features that once were broken. `cargo xtask defects` breaks them again, and each of these must
//! find it.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat::sim::{Budget, Simulation, edit};
use homeostat_runtime::{
    Action, Context, Controller, Operator, Result, StandardStatus, changed, condition, terminal,
};
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
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "b".into()))
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

/// Keeps sheets that are held, and refuses bad ones until they are edited.
fn careful() -> Operator {
    let sheets = Controller::<Sheet>::new()
        .owns::<ConfigMap>()
        .when(changed::generation())
        .cleanup_if(|sheet| sheet.spec.text == "held", |_, _| async { Ok(Action::await_change()) })
        .reconcile(|sheet, cx| async move {
            if sheet.spec.text == "bad" {
                return Err(terminal("a bad text"));
            }
            cx.condition(condition("Copied", true, "Copied", "the text is in the ConfigMap"));
            reconcile(sheet, cx).await
        });
    Operator::new("sheets.demo.dev").crd::<Sheet>().control(sheets)
}

fn edited(from: &str, to: &'static str) -> Simulation {
    Simulation::new(careful)
        .given(sheet("one", from))
        .then(edit::<Sheet>("one", move |sheet| sheet.spec.text = to.into()))
        .eventually(|cluster| {
            let is_copied = |sheet: Sheet| sheet.status.is_some_and(|is| is.text == sheet.spec.text);
            cluster.list::<Sheet>().into_iter().all(is_copied)
        })
        .budget(Budget { schedules: 150, ..BUDGET })
}

#[test]
fn a_sheet_that_is_released_is_reconciled() {
    edited("held", "free").check();
}

#[test]
fn a_sheet_that_is_corrected_is_reconciled() {
    edited("bad", "good").check();
}

#[test]
fn conditions_of_others_are_kept() {
    edited("a", "b").check();
}
