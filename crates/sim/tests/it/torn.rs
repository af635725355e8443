//! A crash between two writes.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::Simulation;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::kinds::{Page, PageSpec, check, child, config_maps, ensure, operator, page};

/// Creates two objects that belong together, and assumes that both exist if the first one does.
async fn broken(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let api = config_maps(&cx);
    if api.get_opt("key").await?.is_some() {
        return Ok(Action::await_change());
    }
    ensure(&api, &child(&page, "key", "k")).await?;
    ensure(&api, &child(&page, "certificate", "c")).await?;
    Ok(Action::await_change())
}

async fn cured(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let api = config_maps(&cx);
    for (name, text) in [("key", "k"), ("certificate", "c")] {
        if api.get_opt(name).await?.is_none() {
            ensure(&api, &child(&page, name, text)).await?;
        }
    }
    Ok(Action::await_change())
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(page("home", PageSpec::default()))
}

#[test]
fn a_torn_pair_is_found() {
    let found = check(
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(broken))),
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(cured))),
        &["same end"],
    );
    let failure = found.failure.expect("checked");
    assert!(failure.report.contains("configmaps default/certificate: is missing"), "{}", failure.report);
    assert_eq!(failure.trace.deviations.len(), 1);
}
