//! A trace can still be replayed after unrelated changes of the operator.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use crate::kinds::{BUDGET, Page, PageSpec, child, config_maps, ensure, operator, page};

/// Creates a pair that a crash can tear apart. The changed version also reads a Secret and creates another child.
async fn reconcile(page: Arc<Page>, cx: Context<Page>, is_changed: bool) -> Result<Action> {
    let api = config_maps(&cx);
    if is_changed {
        let secrets: Api<Secret> = Api::namespaced(cx.client().clone(), "default");
        secrets.get_opt("token").await?;
        ensure(&api, &child(&page, "settings", "s")).await?;
    }
    if api.get_opt("key").await?.is_some() {
        return Ok(Action::await_change());
    }
    ensure(&api, &child(&page, "key", "k")).await?;
    ensure(&api, &child(&page, "certificate", "c")).await?;
    Ok(Action::await_change())
}

fn make(is_changed: bool) -> Operator {
    let pages = Controller::<Page>::new().owns::<ConfigMap>();
    operator().control(pages.reconcile(move |page, cx| reconcile(page, cx, is_changed)))
}

fn simulation(is_changed: bool) -> Simulation {
    // None of the edits matters, so the shrunk failure has none.
    (0..4).fold(
        Simulation::new(move || make(is_changed)).given(page("home", PageSpec::default())).budget(BUDGET),
        |simulation, number| {
            simulation.then(edit::<Page>("home", move |page| page.spec.text = number.to_string()))
        },
    )
}

#[test]
fn a_trace_survives_unrelated_changes_of_the_operator() {
    let found = simulation(false).explore().failure.expect("the bug is found");
    assert_eq!(found.steps(), 2, "the page and one fault are enough\n{}", found.report);
    let again = simulation(true).replay(&found.trace).failure.expect("it still fails");
    assert_eq!((again.oracle, again.text), (found.oracle, found.text));
}
