//! Half of the work: status that only the run which did the work writes, a pair of which each half comes from another state, a field
//! that is not set yet, an error that nobody acts upon.

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

/// The broken one reports the child only in the run that makes it.
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
fn a_status_that_only_the_run_which_did_the_work_writes() {
    let [broken, cured] = both(report_what_was_made);
    check(broken, cured, &["same end"]);
}

/// The broken one writes a pair of which one half is read from the server and the other from the cache, and never looks again.
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

/// The broken one takes for granted that whoever made the child has also written the status.
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

/// The broken one notes that a write failed, and calls the run a success.
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
