//! The leftovers of a deleted object are removed when the deletion event arrives. An operator that is down misses the
//! event, which is not sent again.

use homeostat::core::journal::Change;
use homeostat::prelude::*;
use homeostat::sim::Simulation;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::objects::{in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Team", namespaced)]
pub(crate) struct TeamSpec {
    priority: i32,
}

/// A namespaced object cannot own a cluster-scoped one: the garbage collector does not delete it.
async fn reconcile(team: Arc<Team>, cx: Context<Team>) -> Result<Action> {
    if is_latest(&cx).await? {
        let class: PriorityClass =
            from_json(&json!({"metadata": {"name": team.name_any()}, "value": team.spec.priority}))?;
        cx.apply_unowned(class).await?;
    }
    Ok(Action::await_change())
}

async fn delete_on_event(event: RawEvent<Team>, cx: HandlerContext<Team>) -> Result<()> {
    if matches!(event.change, Change::Deleted | Change::Missed) {
        let classes: Api<PriorityClass> = Api::all(cx.client().clone());
        classes.delete(&event.object.name_any(), &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn delete_before_it_is_gone(team: Arc<Team>, cx: Context<Team>) -> Result<Action> {
    let classes: Api<PriorityClass> = Api::all(cx.client().clone());
    if let Some(class) = classes.get_opt(&team.name_any()).await? {
        cx.delete(&class).await?;
    }
    Ok(Action::await_change())
}

fn teams() -> Controller<Team> {
    Controller::new()
        .watches::<PriorityClass, _>(|class| [("default", class.name_any())])
        .writes::<PriorityClass>()
}

fn operator() -> Operator {
    Operator::new("teams.zoo.homeostat.dev").crd::<Team>()
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Team::new("night-shift", TeamSpec { priority: 7 })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| {
        let deletions = Handlers::<Team>::new().on_event("delete", delete_on_event);
        let deletions = Controller::new().named("deletions").handlers(deletions);
        operator().control(teams().reconcile(reconcile)).control(deletions)
    })
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator().control(teams().cleanup(delete_before_it_is_gone).reconcile(reconcile)))
}
