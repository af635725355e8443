//! The condition Ready stays true when a new spec cannot be applied: a client that waits for the rollout believes that
//! it is done.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};

use crate::objects::{config_map, in_default};

const REPLICAS_MAX: u32 = 9;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Rollout", namespaced, status = "RolloutStatus")]
pub(crate) struct RolloutSpec {
    replicas: u32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct RolloutStatus {
    #[serde(flatten)]
    base: StandardStatus,
}

async fn carry_out(rollout: &Rollout, cx: &Context<Rollout>) -> Result<Action> {
    cx.apply(config_map(&rollout.name_any(), "replicas", rollout.spec.replicas.to_string())).await?;
    cx.condition(condition("Ready", true, "RolledOut", "all replicas are there"));
    Ok(Action::await_change())
}

async fn say_nothing(rollout: Arc<Rollout>, cx: Context<Rollout>) -> Result<Action> {
    if rollout.spec.replicas > REPLICAS_MAX {
        return Ok(Action::await_change());
    }
    carry_out(&rollout, &cx).await
}

async fn say_why_not(rollout: Arc<Rollout>, cx: Context<Rollout>) -> Result<Action> {
    if rollout.spec.replicas > REPLICAS_MAX {
        cx.condition(condition("Ready", false, "TooMany", format!("at most {REPLICAS_MAX} replicas")));
        return Ok(Action::await_change());
    }
    carry_out(&rollout, &cx).await
}

fn rollouts() -> Controller<Rollout> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(rollouts: BuiltController) -> Operator {
    Operator::new("rollouts.zoo.homeostat.dev").crd::<Rollout>().control(rollouts)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Rollout::new("shop", RolloutSpec { replicas: 2 })))
        .then(edit::<Rollout>("shop", |rollout| rollout.spec.replicas = 20))
        .then(edit::<Rollout>("shop", |rollout| rollout.spec.replicas = 3))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(rollouts().reconcile(say_nothing)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(rollouts().reconcile(say_why_not)))
}
