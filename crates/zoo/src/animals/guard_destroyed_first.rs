//! The object that determines the next step is deleted before that step is taken: after a crash in between, nothing
//! shows that the step is still missing.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};

use crate::objects::{config_map, data_of, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Queue", namespaced)]
pub(crate) struct QueueSpec {
    size: String,
}

/// For a different size, the set must be re-created and the disk must grow.
async fn decide_by_the_set(queue: Arc<Queue>, cx: Context<Queue>) -> Result<Action> {
    let size = &*queue.spec.size;
    if let Some(set) = cx.get::<ConfigMap>("set")?
        && data_of(&set, "size") != size
        && is_latest(&cx).await?
    {
        cx.delete(&*set).await?;
        cx.apply(config_map("disk", "size", size)).await?;
    }
    if cx.get::<ConfigMap>("disk")?.is_none() {
        cx.apply(config_map("disk", "size", size)).await?;
    }
    if cx.get::<ConfigMap>("set")?.is_none() {
        cx.apply(config_map("set", "size", size)).await?;
    }
    Ok(Action::await_change())
}

async fn decide_by_each(queue: Arc<Queue>, cx: Context<Queue>) -> Result<Action> {
    let size = &*queue.spec.size;
    if !is_latest(&cx).await? {
        return Ok(Action::await_change());
    }
    cx.apply(config_map("disk", "size", size)).await?;
    match cx.get::<ConfigMap>("set")? {
        None => drop(cx.apply(config_map("set", "size", size)).await?),
        Some(set) if data_of(&set, "size") != size => {
            cx.delete(&*set).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

fn queues() -> Controller<Queue> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(queues: BuiltController) -> Operator {
    Operator::new("queues.zoo.homeostat.dev").crd::<Queue>().control(queues)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Queue::new("jobs", QueueSpec { size: "1Gi".to_owned() })))
        .then(edit::<Queue>("jobs", |queue| queue.spec.size = "2Gi".into()))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(queues().reconcile(decide_by_the_set)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(queues().reconcile(decide_by_each)))
}
