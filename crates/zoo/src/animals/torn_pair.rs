//! Two objects that belong together, where the existence of the first is taken as proof of both: after a crash between
//! the two writes the second is never created.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use serde_json::json;

use crate::objects::in_default;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Identity", namespaced)]
pub(crate) struct IdentitySpec {
    host: String,
}

fn secret(name: &str, host: &str) -> Result<Secret> {
    Ok(from_json(&json!({"metadata": {"name": name}, "stringData": {"host": host}}))?)
}

async fn make_both_unless_first_is_there(identity: Arc<Identity>, cx: Context<Identity>) -> Result<Action> {
    if cx.get::<Secret>("key")?.is_some() {
        return Ok(Action::await_change());
    }
    let _: Arc<Secret> = cx.create(secret("key", &identity.spec.host)?).await?;
    let _: Arc<Secret> = cx.create(secret("certificate", &identity.spec.host)?).await?;
    Ok(Action::await_change())
}

async fn make_each_that_is_missing(identity: Arc<Identity>, cx: Context<Identity>) -> Result<Action> {
    for name in ["key", "certificate"] {
        if cx.get::<Secret>(name)?.is_none() {
            let _: Arc<Secret> = cx.create(secret(name, &identity.spec.host)?).await?;
        }
    }
    Ok(Action::await_change())
}

fn identities() -> Controller<Identity> {
    Controller::new().owns::<Secret>()
}

fn operator(identities: BuiltController) -> Operator {
    Operator::new("identities.zoo.homeostat.dev").crd::<Identity>().control(identities)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    let spec = IdentitySpec { host: "example.org".to_owned() };
    Simulation::new(make).given(in_default(Identity::new("web", spec)))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(identities().reconcile(make_both_unless_first_is_there)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(identities().reconcile(make_each_that_is_missing)))
}
