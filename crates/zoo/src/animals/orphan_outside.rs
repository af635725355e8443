//! Creates a machine in a cloud that assigns numbers. The number is recorded after the machine is created: after a
//! crash in between, the machine is forgotten and another one is created.

use std::collections::BTreeMap;

use homeostat::prelude::*;
use homeostat::sim::{Outside, Simulation};
use serde_json::json;

use crate::objects::{in_default, is_latest};

/// Machines by number, with the tag each was created with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cloud {
    machines: BTreeMap<u32, String>,
}

impl Cloud {
    fn create(&mut self, tag: String) -> u32 {
        let number = self.machines.keys().next_back().map_or(1, |last| last + 1);
        self.machines.insert(number, tag);
        number
    }

    /// Creates a machine, unless one with this tag exists: the same tag always means the same machine.
    fn create_once(&mut self, tag: String) -> u32 {
        let known = self.machines.iter().find(|(_, own)| **own == tag).map(|(number, _)| *number);
        known.unwrap_or_else(|| self.create(tag))
    }
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Instance", namespaced, status = "InstanceStatus")]
pub(crate) struct InstanceSpec {
    image: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct InstanceStatus {
    #[serde(default)]
    machine: Option<u32>,
}

fn machine_of(instance: &Instance) -> Option<u32> {
    instance.status.as_ref().and_then(|status| status.machine)
}

async fn make(
    instance: Arc<Instance>,
    cx: Context<Instance>,
    cloud: Outside<Cloud>,
    create: fn(&mut Cloud, String) -> u32,
) -> Result<Action> {
    if machine_of(&instance).is_none() && is_latest(&cx).await? {
        let tag = instance.uid().unwrap_or_default();
        let machine = cloud.write("create machine", move |cloud| create(cloud, tag)).await?;
        cx.patch_status(&*instance, json!({"status": {"machine": machine}})).await?;
    }
    Ok(Action::await_change())
}

async fn delete_recorded(instance: Arc<Instance>, cloud: Outside<Cloud>) -> Result<Action> {
    if let Some(machine) = machine_of(&instance) {
        cloud.write("delete machine", move |cloud| cloud.machines.remove(&machine)).await?;
    }
    Ok(Action::await_change())
}

async fn delete_tagged(instance: Arc<Instance>, cloud: Outside<Cloud>) -> Result<Action> {
    let tag = instance.uid().unwrap_or_default();
    cloud.write("delete machine", move |cloud| cloud.machines.retain(|_, own| *own != tag)).await?;
    Ok(Action::await_change())
}

fn operator(instances: BuiltController) -> Operator {
    Operator::new("instances.zoo.homeostat.dev").crd::<Instance>().control(instances)
}

fn scenario(make: fn(Outside<Cloud>) -> Operator) -> Simulation {
    let instance = Instance::new("web", InstanceSpec { image: "web:1".to_owned() });
    Simulation::with_outside(Cloud::default(), make).given(in_default(instance))
}

pub(super) fn broken() -> Simulation {
    scenario(|cloud| {
        let other = cloud.clone();
        let instances =
            Controller::new().cleanup(move |instance, _| delete_recorded(instance, other.clone()));
        operator(instances.reconcile(move |instance, cx| make(instance, cx, cloud.clone(), Cloud::create)))
    })
}

pub(super) fn cured() -> Simulation {
    scenario(|cloud| {
        let other = cloud.clone();
        let instances = Controller::new().cleanup(move |instance, _| delete_tagged(instance, other.clone()));
        operator(
            instances.reconcile(move |instance, cx| make(instance, cx, cloud.clone(), Cloud::create_once)),
        )
    })
}
