//! A restart on an old state.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;

use crate::kinds::{Page, PageSpec, check, child, config_maps, ensure, operator, page};

async fn reconcile(page: Arc<Page>, cx: Context<Page>, is_careful: bool) -> Result<Action> {
    let api = config_maps(&cx);
    if page.spec.is_public {
        if cx.get::<ConfigMap>("public")?.is_none() {
            ensure(&api, &child(&page, "public", "text")).await?;
        }
    } else if cx.get::<ConfigMap>("public")?.is_some() {
        if is_careful {
            let name = page.metadata.name.clone().unwrap_or_default();
            let live = Api::<Page>::namespaced(cx.client().clone(), "default").get(&name).await?;
            if live.spec.is_public {
                return Ok(Action::await_change());
            }
        }
        api.delete("public", &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}

async fn broken(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    reconcile(page, cx, false).await
}

async fn cured(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    reconcile(page, cx, true).await
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(page("home", PageSpec { is_public: true, ..PageSpec::default() }))
        .then(edit::<Page>("home", |page| page.spec.is_public = false))
        .then(edit::<Page>("home", |page| page.spec.is_public = true))
}

#[test]
fn a_toggled_child_is_found() {
    let found = check(
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(broken))),
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(cured))),
        &["justified deletion"],
    );
    let deviations = found.failure.expect("checked").trace.deviations;
    assert_eq!(deviations.len(), 1, "{deviations:?}");
}
