//! Writes at rest: a reconciler that writes the time of day into the status never comes to rest.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::Simulation;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kinds::{Page, PageSpec, check, operator, page};

async fn say(page: &Page, cx: &Context<Page>, text: String) -> Result<()> {
    let api: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let name = page.metadata.name.clone().unwrap_or_default();
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": {"seen": text}})))
        .await?;
    Ok(())
}

async fn broken(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    say(&page, &cx, cx.now().to_string()).await?;
    Ok(Action::await_change())
}

async fn cured(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    if page.status.as_ref().is_none_or(|status| status.seen != page.spec.text) {
        say(&page, &cx, page.spec.text.clone()).await?;
    }
    Ok(Action::await_change())
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(page("home", PageSpec { text: "hello".into(), ..PageSpec::default() }))
}

#[test]
fn a_clock_in_the_status_is_found() {
    let broken = || operator().control(Controller::<Page>::new().reconcile(broken));
    let cured = || operator().control(Controller::<Page>::new().reconcile(cured));
    check(simulation(broken), simulation(cured), &["hot loop", "converges", "quiet at rest"]);
}
