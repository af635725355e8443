//! Parts are created one after another, then those that are no longer desired are deleted. While one part cannot be
//! created, nothing is deleted.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};

use crate::objects::{config_map, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Stack", namespaced)]
pub(crate) struct StackSpec {
    /// Names of Secrets; a part is created for each that exists.
    parts: Vec<String>,
}

async fn make_all_then_prune(stack: Arc<Stack>, cx: Context<Stack>) -> Result<Action> {
    for part in &stack.spec.parts {
        if cx.get::<Secret>(part)?.is_none() {
            return Ok(Action::await_change());
        }
        cx.apply(config_map(part, "stack", stack.name_any())).await?;
    }
    prune(&stack, &cx).await
}

async fn make_what_can_be_made(stack: Arc<Stack>, cx: Context<Stack>) -> Result<Action> {
    for part in &stack.spec.parts {
        if cx.get::<Secret>(part)?.is_some() {
            cx.apply(config_map(part, "stack", stack.name_any())).await?;
        }
    }
    prune(&stack, &cx).await
}

async fn prune(stack: &Stack, cx: &Context<Stack>) -> Result<Action> {
    for part in cx.owned::<ConfigMap>()? {
        if !stack.spec.parts.contains(&part.name_any()) && is_latest(cx).await? {
            cx.delete(&*part).await?;
        }
    }
    Ok(Action::await_change())
}

fn stacks() -> Controller<Stack> {
    Controller::new().owns::<ConfigMap>().references::<Secret, _>(|stack: &Stack| stack.spec.parts.clone())
}

fn operator(stacks: BuiltController) -> Operator {
    Operator::new("stacks.zoo.homeostat.dev").crd::<Stack>().control(stacks)
}

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    in_default(secret)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    let spec = StackSpec { parts: vec!["old".to_owned(), "kept".to_owned()] };
    Simulation::new(make)
        .given(secret("old"))
        .given(secret("kept"))
        .given(in_default(Stack::new("shop", spec)))
        .then(edit::<Stack>("shop", |stack| stack.spec.parts = vec!["kept".to_owned(), "missing".to_owned()]))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(stacks().reconcile(make_all_then_prune)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(stacks().reconcile(make_what_can_be_made)))
}
