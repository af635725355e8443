//! Writes at rest: a reconciler that writes the time of day into the status never comes to rest. A single write after a
//! timer is allowed.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::Simulation;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kinds::{Page, PageSpec, SAMPLE, check, operator, page};

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

/// The age at which a page is old: after the simulator's first check of an end, before its last.
const OLD_SECONDS: i64 = 300;

/// Writes once more when the page has become old.
async fn grow_old(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let born = page.metadata.creation_timestamp.as_ref().map_or(cx.now(), |time| time.0);
    let rest = OLD_SECONDS - cx.now().duration_since(born).as_secs();
    let wanted = if rest > 0 { "young" } else { "old" };
    let seen = page.status.as_ref().map(|status| &*status.seen).unwrap_or_default();
    if seen != "old" && seen != wanted {
        say(&page, &cx, wanted.to_owned()).await?;
    }
    let rest = u64::try_from(rest).ok().filter(|rest| *rest > 0).map(Duration::from_secs);
    Ok(rest.map_or_else(Action::await_change, Action::requeue))
}

#[test]
fn the_end_of_a_schedule_waits_for_timers() {
    let make = || operator().control(Controller::<Page>::new().reconcile(grow_old));
    let outcome = simulation(make).budget(SAMPLE).explore();
    assert!(outcome.failure.is_none(), "a false alarm: {:?}", outcome.failure);
    let is_old = |cluster: &homeostat_sim::Cluster| {
        cluster
            .list::<Page>()
            .iter()
            .all(|page| page.status.as_ref().is_some_and(|status| status.seen == "old"))
    };
    let few = homeostat_sim::Budget { schedules: 3, seconds: 3600 };
    let outcome = simulation(make).eventually(is_old).budget(few).explore();
    assert!(outcome.failure.is_none(), "it never becomes old: {:?}", outcome.failure);
}
