//! A limit on all objects together: because reconciles run concurrently, each one checks the limit before any of the
//! others is counted.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use kube::api::PostParams;
use serde_json::json;

use crate::objects::{api, config_map, data_of, in_default, is_latest, owned_by};

const SLOT: &str = "upgrade-slot";
const AGAIN: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Machine", namespaced, status = "MachineStatus")]
pub(crate) struct MachineSpec {
    version: u32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct MachineStatus {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    upgrading: bool,
}

fn is_upgrading(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.upgrading)
}

fn is_done(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.version == machine.spec.version && !status.upgrading)
}

async fn upgrade(machine: &Machine, cx: &Context<Machine>) -> Result<()> {
    cx.patch_status(machine, json!({"status": {"upgrading": true}})).await?;
    let done = json!({"status": {"upgrading": false, "version": machine.spec.version}});
    cx.patch_status(machine, done).await?;
    Ok(())
}

async fn count_others(machine: Arc<Machine>, cx: Context<Machine>) -> Result<Action> {
    if is_done(&machine) {
        return Ok(Action::await_change());
    }
    let machines = cx.list::<Machine>()?;
    if machines.iter().any(|other| other.name_any() != machine.name_any() && is_upgrading(other)) {
        return Ok(Action::requeue(AGAIN));
    }
    upgrade(&machine, &cx).await?;
    Ok(Action::await_change())
}

/// Takes the only slot, which the server grants to one machine. The machine owns the slot, so it is deleted with the
/// machine.
async fn take_slot(machine: Arc<Machine>, cx: Context<Machine>) -> Result<Action> {
    let slots = api::<_, ConfigMap>(&cx);
    let holder = machine.uid().unwrap_or_default();
    if is_done(&machine) {
        if let Some(slot) = cx.get::<ConfigMap>(SLOT)?
            && data_of(&slot, "holder") == holder
            && is_latest(&cx).await?
        {
            cx.delete(&*slot).await?;
        }
        return Ok(Action::await_change());
    }
    let slot = owned_by(&*machine, config_map(SLOT, "holder", &*holder));
    match slots.create(&PostParams::default(), &slot).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let taken = slots.get_opt(SLOT).await?;
            if taken.is_none_or(|slot| data_of(&slot, "holder") != holder) {
                return Ok(Action::requeue(AGAIN));
            }
        }
        created => drop(created?),
    }
    upgrade(&machine, &cx).await?;
    Ok(Action::requeue(AGAIN))
}

fn machines() -> Controller<Machine> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(machines: BuiltController) -> Operator {
    Operator::new("machines.zoo.homeostat.dev").crd::<Machine>().control(machines)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Machine::new("one", MachineSpec { version: 2 })))
        .given(in_default(Machine::new("two", MachineSpec { version: 2 })))
        .always(|cluster| {
            cluster.list::<Machine>().iter().filter(|machine| is_upgrading(machine)).count() <= 1
        })
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(machines().reconcile(count_others)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(machines().reconcile(take_slot)))
}
