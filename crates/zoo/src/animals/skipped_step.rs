//! A leaving member passes through an intermediate state, and the reconciler assumes that it is gone before it is
//! desired again. If the number goes down and up too fast, the member stays in that state.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use serde_json::json;

use crate::objects::{config_map, data_of, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Crew", namespaced)]
pub(crate) struct CrewSpec {
    members: usize,
}

fn member_name(number: usize) -> String {
    format!("member-{number}")
}

/// Asks a surplus member to leave, and deletes it in the next run.
async fn dismiss_surplus(crew: &Crew, cx: &Context<Crew>) -> Result<()> {
    let wanted: Vec<String> = (0..crew.spec.members).map(member_name).collect();
    for member in cx.owned::<ConfigMap>()? {
        if wanted.contains(&member.name_any()) || !is_latest(cx).await? {
            continue;
        }
        if data_of(&member, "state") == "leaving" {
            cx.delete(&*member).await?;
        } else {
            cx.patch(&*member, json!({"data": {"state": "leaving"}})).await?;
        }
    }
    Ok(())
}

async fn make_missing(crew: Arc<Crew>, cx: Context<Crew>) -> Result<Action> {
    for number in 0..crew.spec.members {
        if cx.get::<ConfigMap>(&*member_name(number))?.is_none() {
            cx.apply(config_map(&member_name(number), "state", "active")).await?;
        }
    }
    dismiss_surplus(&crew, &cx).await?;
    Ok(Action::await_change())
}

async fn make_active(crew: Arc<Crew>, cx: Context<Crew>) -> Result<Action> {
    for number in 0..crew.spec.members {
        cx.apply(config_map(&member_name(number), "state", "active")).await?;
    }
    dismiss_surplus(&crew, &cx).await?;
    Ok(Action::await_change())
}

fn crews() -> Controller<Crew> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(crews: BuiltController) -> Operator {
    Operator::new("crews.zoo.homeostat.dev").crd::<Crew>().control(crews)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Crew::new("night", CrewSpec { members: 2 })))
        .then(edit::<Crew>("night", |crew| crew.spec.members = 1))
        .then(edit::<Crew>("night", |crew| crew.spec.members = 2))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(crews().reconcile(make_missing)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(crews().reconcile(make_active)))
}
