//! A child that exists while a switch is on. After a restart, the cache may show the old value of the switch, and a
//! child that is in use is deleted.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use kube::api::DeleteParams;
use serde_json::json;

use crate::objects::{api, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Endpoint", namespaced)]
pub(crate) struct EndpointSpec {
    tls: bool,
}

fn secret() -> Result<Secret> {
    Ok(from_json(&json!({"metadata": {"name": "tls"}, "stringData": {"key": "secret"}}))?)
}

async fn delete_when_off(endpoint: Arc<Endpoint>, cx: Context<Endpoint>) -> Result<Action> {
    if endpoint.spec.tls {
        cx.apply(secret()?).await?;
    } else if cx.get::<Secret>("tls")?.is_some() {
        api::<_, Secret>(&cx).delete("tls", &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}

async fn delete_when_really_off(endpoint: Arc<Endpoint>, cx: Context<Endpoint>) -> Result<Action> {
    if endpoint.spec.tls {
        cx.apply(secret()?).await?;
    } else if let Some(secret) = cx.get::<Secret>("tls")?
        && is_latest(&cx).await?
    {
        cx.delete(&*secret).await?;
    }
    Ok(Action::await_change())
}

fn endpoints() -> Controller<Endpoint> {
    Controller::new().owns::<Secret>()
}

fn operator(endpoints: BuiltController) -> Operator {
    Operator::new("endpoints.zoo.homeostat.dev").crd::<Endpoint>().control(endpoints)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Endpoint::new("web", EndpointSpec { tls: true })))
        .then(edit::<Endpoint>("web", |endpoint| endpoint.spec.tls = false))
        .then(edit::<Endpoint>("web", |endpoint| endpoint.spec.tls = true))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(endpoints().reconcile(delete_when_off)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(endpoints().reconcile(delete_when_really_off)))
}
