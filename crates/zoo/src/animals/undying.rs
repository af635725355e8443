//! A cleanup that fails if the resource it deletes is already gone: the finalizer stays, and so does the object.

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use kube::api::DeleteParams;

use crate::objects::{api, config_map, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Export", namespaced)]
pub(crate) struct ExportSpec {
    path: String,
}

fn entry_name(export: &Export) -> String {
    format!("export-{}", export.name_any())
}

async fn reconcile(export: Arc<Export>, cx: Context<Export>) -> Result<Action> {
    if is_latest(&cx).await? {
        cx.apply_unowned(config_map(&entry_name(&export), "path", &*export.spec.path)).await?;
    }
    Ok(Action::await_change())
}

async fn delete_what_must_be_there(export: Arc<Export>, cx: Context<Export>) -> Result<Action> {
    api::<_, ConfigMap>(&cx).delete(&entry_name(&export), &DeleteParams::default()).await?;
    Ok(Action::await_change())
}

async fn delete_what_is_there(export: Arc<Export>, cx: Context<Export>) -> Result<Action> {
    if let Some(entry) = api::<_, ConfigMap>(&cx).get_opt(&entry_name(&export)).await? {
        cx.delete(&entry).await?;
    }
    Ok(Action::await_change())
}

fn exports() -> Controller<Export> {
    Controller::new()
        .watches::<ConfigMap, _>(|entry| entry.name_any().strip_prefix("export-").map(ToOwned::to_owned))
        .writes::<ConfigMap>()
}

fn operator(exports: BuiltController) -> Operator {
    Operator::new("exports.zoo.homeostat.dev").crd::<Export>().control(exports)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Export::new("music", ExportSpec { path: "/music".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(exports().cleanup(delete_what_must_be_there).reconcile(reconcile)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(exports().cleanup(delete_what_is_there).reconcile(reconcile)))
}
