//! Pods are counted in the cache, which does not show those that were just created: too many are created, and then
//! needed ones are deleted.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::objects::{api, create_if_missing, in_default, owned_by};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "WorkerGroup", namespaced)]
pub(crate) struct WorkerGroupSpec {
    replicas: usize,
}

fn pod(group: &WorkerGroup, metadata: &Value) -> Result<Pod> {
    let pod = from_json(&json!({
        "metadata": metadata,
        "spec": {"containers": [{"name": "worker", "image": "worker:1"}]},
    }))?;
    Ok(owned_by(group, pod))
}

async fn count(group: Arc<WorkerGroup>, cx: Context<WorkerGroup>) -> Result<Action> {
    let (pods, there) = (api::<_, Pod>(&cx), cx.owned::<Pod>()?);
    for _ in there.len()..group.spec.replicas {
        pods.create(&PostParams::default(), &pod(&group, &json!({"generateName": "worker-"}))?).await?;
    }
    for surplus in there.iter().skip(group.spec.replicas) {
        pods.delete(&surplus.name_any(), &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}

async fn name_each(group: Arc<WorkerGroup>, cx: Context<WorkerGroup>) -> Result<Action> {
    for number in 0..group.spec.replicas {
        let name = format!("worker-{number}");
        if cx.get::<Pod>(&*name)?.is_none() {
            create_if_missing(&api(&cx), &pod(&group, &json!({"name": name}))?).await?;
        }
    }
    Ok(Action::await_change())
}

fn groups() -> Controller<WorkerGroup> {
    Controller::new().owns::<Pod>()
}

fn operator(groups: BuiltController) -> Operator {
    Operator::new("workers.zoo.homeostat.dev").crd::<WorkerGroup>().control(groups)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(WorkerGroup::new("small", WorkerGroupSpec { replicas: 2 })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(groups().reconcile(count)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(groups().reconcile(name_each)))
}
