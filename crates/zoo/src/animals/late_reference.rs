//! An object names another one, which may be created later. A reconciler that waits for it without watching it waits
//! forever.

use homeostat::prelude::*;
use homeostat::sim::Simulation;

use crate::objects::{api, config_map, data_of, in_default};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Site", namespaced)]
pub(crate) struct SiteSpec {
    settings: String,
}

async fn look_once(site: Arc<Site>, cx: Context<Site>) -> Result<Action> {
    let Some(settings) = api::<_, ConfigMap>(&cx).get_opt(&site.spec.settings).await? else {
        return Ok(Action::await_change());
    };
    cx.apply(config_map(&site.name_any(), "color", data_of(&settings, "color"))).await?;
    Ok(Action::await_change())
}

async fn look_at_what_is_watched(site: Arc<Site>, cx: Context<Site>) -> Result<Action> {
    let Some(settings) = cx.get::<ConfigMap>(&*site.spec.settings)? else {
        return Ok(Action::await_change());
    };
    cx.apply(config_map(&site.name_any(), "color", data_of(&settings, "color"))).await?;
    Ok(Action::await_change())
}

fn operator(sites: BuiltController) -> Operator {
    Operator::new("sites.zoo.homeostat.dev").crd::<Site>().control(sites)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(config_map("settings", "color", "blue")))
        .given(in_default(Site::new("home", SiteSpec { settings: "settings".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(Controller::new().owns::<ConfigMap>().reconcile(look_once)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| {
        let sites = Controller::new()
            .owns::<ConfigMap>()
            .references::<ConfigMap, _>(|site: &Site| [site.spec.settings.clone()]);
        operator(sites.reconcile(look_at_what_is_watched))
    })
}
