//! A correct reconciler: the simulator finds nothing, and checks the user's own conditions.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Simulation, delete, edit};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::kinds::{Page, PageSpec, SAMPLE, child, operator, page};

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let name = page.metadata.name.clone().unwrap_or_default();
    cx.apply(child(&page, &name, &page.spec.text)).await?;
    Ok(Action::await_change())
}

pub(crate) fn pages() -> Operator {
    operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(reconcile))
}

pub(crate) fn simulation() -> Simulation {
    Simulation::new(pages)
        .given(page("home", PageSpec { text: "hello".into(), ..PageSpec::default() }))
        .then(edit::<Page>("home", |page| page.spec.text = "bye".into()))
        .then(delete::<Page>("home"))
        .budget(SAMPLE)
}

#[test]
fn pages_survive() {
    let outcome = simulation()
        .always(|cluster| cluster.count::<ConfigMap>() <= 1)
        .eventually(|cluster| cluster.count::<ConfigMap>() == 0)
        .check();
    println!(
        "{} schedules, {:.2} s, {} states\n{}",
        outcome.schedules, outcome.seconds, outcome.states, outcome.role
    );
    assert!(outcome.schedules > 100, "{}", outcome.schedules);
    assert!(outcome.role.contains("resources: [\"configmaps\"]"), "{}", outcome.role);
}

/// An object of the same name replaces the first one, which had other children.
#[test]
fn a_recreated_page_survives() {
    let anew = page("home", PageSpec { text: "again".into(), ..PageSpec::default() });
    let outcome = simulation().then(homeostat_sim::create(anew)).explore();
    if let Some(failure) = outcome.failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

#[test]
fn a_condition_that_does_not_hold_is_reported() {
    let never = simulation().always(|cluster| cluster.count::<ConfigMap>() == 0).explore();
    assert_eq!(never.failure.expect("a ConfigMap is made").oracle, "always");
    let left = simulation().eventually(|cluster| cluster.count::<ConfigMap>() == 1).explore();
    assert_eq!(left.failure.expect("nothing is left").oracle, "eventually");
}
