//! Work that is done only in part: a status that is written only by the run that creates the child, a pair whose halves
//! come from different states, a field that is not set yet, an error that is only logged.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::edit;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::check;
use crate::kinds::{Page, both, child, config_maps, ensure};

fn pages(cx: &Context<Page>) -> Api<Page> {
    Api::namespaced(cx.client().clone(), "default")
}

fn seen(page: &Page) -> &str {
    page.status.as_ref().map_or("", |status| &status.seen)
}

async fn record(cx: &Context<Page>, seen: &str) -> Result<()> {
    let status = Patch::Merge(json!({"status": {"seen": seen}}));
    pages(cx).patch_status("home", &PatchParams::default(), &status).await?;
    Ok(())
}

/// The broken version reports the child only in the run that creates it.
async fn report_what_was_made(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let is_there = api.get_opt("child").await?.is_some();
    ensure(&api, &child(&page, "child", "")).await?;
    if (is_cured && seen(&page) != "made") || (!is_cured && !is_there) {
        record(&cx, "made").await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_status_that_is_written_only_by_the_run_that_creates_the_child() {
    let [broken, cured] = both(report_what_was_made);
    check(broken, cured, &["same end"]);
}

/// The broken version writes a pair, one half of which is read from the server and the other from the cache, and never
/// checks it again.
async fn write_pair(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let Some(live) = pages(&cx).get_opt("home").await? else { return Ok(Action::await_change()) };
    let count = if is_cured { live.spec.count } else { page.spec.count };
    let pair = format!("{} {count}", live.spec.text);
    let is_written =
        if is_cured { seen(&live) == pair } else { seen(&live).split(' ').next() == Some(&live.spec.text) };
    if !is_written {
        record(&cx, &pair).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_pair_that_is_read_from_two_states() {
    let [broken, cured] = both(write_pair).map(|one| {
        one.then(edit::<Page>("home", |page| (page.spec.text, page.spec.count) = ("b".into(), 2)))
    });
    check(broken, cured, &["same end", "eventually"]);
}

/// The broken version assumes that the status was written if the child exists.
async fn read_own_status(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    if api.get_opt("child").await?.is_some() {
        let status = page.status.clone();
        let status = if is_cured { status.unwrap_or_default() } else { status.expect("the child is made") };
        if status.seen == "made" || !is_cured {
            return Ok(Action::await_change());
        }
    }
    ensure(&api, &child(&page, "child", "")).await?;
    record(&cx, "made").await?;
    Ok(Action::await_change())
}

#[test]
fn a_field_that_is_not_set_yet() {
    let [broken, cured] = both(read_own_status);
    check(broken, cured, &["no panic", "converges"]);
}

/// The broken version logs that a write failed, and reports success.
async fn write_and_log(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let how = PatchParams::apply("pages").force();
    let wanted = child(&page, "child", &page.spec.text);
    let written = config_maps(&cx).patch("child", &how, &Patch::Apply(&wanted)).await;
    if is_cured {
        written?;
    }
    Ok(Action::await_change())
}

#[test]
fn an_error_that_is_only_logged() {
    let [broken, cured] =
        both(write_and_log).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    check(broken, cured, &["same end"]);
}
