//! A child that is not watched: if it is deleted, it comes back only after the next restart.

use homeostat::prelude::*;
use homeostat::sim::Simulation;

use crate::objects::{api, config_map, in_default};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Page", namespaced)]
pub(crate) struct PageSpec {
    text: String,
}

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let text = config_map(&page.name_any(), "text", &*page.spec.text);
    if api::<_, ConfigMap>(&cx).get_opt(&page.name_any()).await?.is_none_or(|there| there.data != text.data) {
        cx.apply(text).await?;
    }
    Ok(Action::await_change())
}

fn operator(pages: Controller<Page>) -> Operator {
    Operator::new("pages.zoo.homeostat.dev").crd::<Page>().control(pages.reconcile(reconcile))
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Page::new("home", PageSpec { text: "hello".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(Controller::new().writes::<ConfigMap>()))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(Controller::new().owns::<ConfigMap>()))
}
