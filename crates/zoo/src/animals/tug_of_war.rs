//! Two programs write one object. One of them replaces the whole object, and repeatedly removes what the other adds.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use kube::api::PostParams;
use serde_json::json;

use crate::objects::{api, config_map, in_default, owned_by};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "App", namespaced)]
pub(crate) struct AppSpec {
    image: String,
}

async fn replace_whole(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    let (apps, name) = (api::<_, ConfigMap>(&cx), app.name_any());
    let wanted = owned_by(&*app, config_map(&name, "image", &*app.spec.image));
    match apps.get_opt(&name).await? {
        None => drop(apps.create(&PostParams::default(), &wanted).await?),
        Some(there) if there.data == wanted.data => {}
        Some(_) => drop(apps.replace(&name, &PostParams::default(), &wanted).await?),
    }
    Ok(Action::await_change())
}

async fn apply_own_fields(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    cx.apply(config_map(&app.name_any(), "image", &*app.spec.image)).await?;
    Ok(Action::await_change())
}

/// Returns another operator, which adds a line to the object, just as sidecars are injected into Pods.
fn injector() -> Operator {
    let inject = |there: Arc<ConfigMap>, cx: Context<ConfigMap>| async move {
        if there.data.as_ref().is_some_and(|data| data.contains_key("image") && !data.contains_key("proxy")) {
            cx.patch(&*there, json!({"data": {"proxy": "on"}})).await?;
        }
        Ok(Action::await_change())
    };
    Operator::new("injector.zoo.homeostat.dev").control(Controller::<ConfigMap>::new().reconcile(inject))
}

fn apps() -> Controller<App> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(apps: BuiltController) -> Operator {
    Operator::new("apps.zoo.homeostat.dev").crd::<App>().control(apps)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .beside(injector)
        .given(in_default(App::new("shop", AppSpec { image: "shop:1".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(apps().reconcile(replace_whole)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(apps().reconcile(apply_own_fields)))
}
