//! The status contains the time of the last check: each check changes the object, which triggers another check.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use serde_json::json;

use crate::objects::in_default;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Check", namespaced, status = "CheckStatus")]
pub(crate) struct CheckSpec {
    target: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckStatus {
    #[serde(default)]
    result: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checked_at: Option<String>,
}

fn result(check: &Check) -> String {
    format!("{} is up", check.spec.target)
}

async fn write_always(check: Arc<Check>, cx: Context<Check>) -> Result<Action> {
    let status = json!({"result": result(&check), "checkedAt": cx.now().to_string()});
    cx.patch_status(&*check, json!({"status": status})).await?;
    Ok(Action::await_change())
}

async fn write_what_changed(check: Arc<Check>, cx: Context<Check>) -> Result<Action> {
    let result = result(&check);
    if check.status.as_ref().is_none_or(|status| status.result != result) {
        let status = json!({"result": result, "checkedAt": cx.now().to_string()});
        cx.patch_status(&*check, json!({"status": status})).await?;
    }
    Ok(Action::await_change())
}

fn operator(checks: BuiltController) -> Operator {
    Operator::new("checks.zoo.homeostat.dev").crd::<Check>().control(checks)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Check::new("home", CheckSpec { target: "home".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(Controller::new().reconcile(write_always)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(Controller::new().reconcile(write_what_changed)))
}
