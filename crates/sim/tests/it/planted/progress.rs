//! Progress that is recorded before it is made, or for the wrong generation, or polled without a pause.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::{Simulation, edit};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::check;
use crate::kinds::{Page, both, check_undisturbed, child, config_maps, ensure};

fn pages(cx: &Context<Page>) -> Api<Page> {
    Api::namespaced(cx.client().clone(), "default")
}

async fn record(cx: &Context<Page>, seen: &str) -> Result<()> {
    let status = Patch::Merge(json!({"status": {"seen": seen}}));
    pages(cx).patch_status("home", &PatchParams::default(), &status).await?;
    Ok(())
}

/// The broken version records that the work is done before it does the work.
async fn record_first(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    if page.status.as_ref().is_some_and(|status| status.seen == "done") && !is_cured {
        return Ok(Action::await_change());
    }
    if !is_cured {
        record(&cx, "done").await?;
    }
    ensure(&config_maps(&cx), &child(&page, "child", "")).await?;
    if is_cured && page.status.as_ref().is_none_or(|status| status.seen != "done") {
        record(&cx, "done").await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_record_before_the_work() {
    let [broken, cured] = both(record_first);
    check(broken, cured, &["same end"]);
}

/// The broken version records a newer generation than the one it acted on.
async fn record_newer(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let done = page.status.as_ref().and_then(|status| status.seen.parse::<i64>().ok());
    if done == page.metadata.generation && !is_cured {
        return Ok(Action::await_change());
    }
    let how = PatchParams::apply("pages").force();
    let wanted = child(&page, "child", &page.spec.text);
    config_maps(&cx).patch("child", &how, &Patch::Apply(&wanted)).await?;
    let recorded = if is_cured {
        page.metadata.generation
    } else {
        pages(&cx).get_opt("home").await?.and_then(|page| page.metadata.generation)
    };
    if done != recorded {
        record(&cx, &recorded.unwrap_or_default().to_string()).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_generation_that_was_not_carried_out() {
    let [broken, cured] =
        both(record_newer).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    check(broken, cured, &["same end"]);
}

/// The broken version polls without a pause while it waits.
async fn wait_for_settings(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    if config_maps(&cx).get_opt("settings").await?.is_none() {
        let pause = if is_cured { Duration::from_secs(60) } else { Duration::from_millis(10) };
        return Ok(Action::requeue(pause));
    }
    ensure(&config_maps(&cx), &child(&page, "child", "")).await?;
    Ok(Action::await_change())
}

#[test]
fn a_wait_without_a_pause() {
    check_undisturbed(both(wait_for_settings), "hot loop");
}

fn edited(one: Simulation) -> Simulation {
    one.then(edit::<Page>("home", |page| page.spec.text = "b".into()))
}

/// The broken version updates the first of two children only if the second does not exist.
async fn update_first_only_at_creation(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let (api, how) = (config_maps(&cx), PatchParams::apply("pages").force());
    let is_there = api.get_opt("second").await?.is_some();
    if is_cured || !is_there {
        api.patch("first", &how, &Patch::Apply(&child(&page, "first", &page.spec.text))).await?;
    }
    api.patch("second", &how, &Patch::Apply(&child(&page, "second", &page.spec.text))).await?;
    Ok(Action::await_change())
}

#[test]
fn a_child_that_is_only_written_at_its_creation() {
    check_undisturbed(both(update_first_only_at_creation).map(edited), "path independence");
}
