//! Leftovers of an earlier spec: keys of a map, parts beyond the first page of a list, a child under its former name.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::{Simulation, edit};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::check;
use crate::kinds::{Page, both, check_undisturbed, child, config_maps, ensure};

fn pages(cx: &Context<Page>) -> Api<Page> {
    Api::namespaced(cx.client().clone(), "default")
}

/// The broken version merges its keys into the child; nothing removes the keys of the former spec.
async fn merge_keys(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let mut wanted = child(&page, "child", "");
    wanted.data = Some([(page.spec.text.clone(), "here".to_owned())].into());
    if is_cured {
        cx.apply(wanted).await?;
        return Ok(Action::await_change());
    }
    ensure(&config_maps(&cx), &wanted).await?;
    let stored = config_maps(&cx).get("child").await?.data.unwrap_or_default();
    if !stored.contains_key(&page.spec.text) {
        let patch = Patch::Merge(json!({"data": wanted.data}));
        config_maps(&cx).patch("child", &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_key_that_stays() {
    let edited = |one: Simulation| one.then(edit::<Page>("home", |page| page.spec.text = "b".into()));
    check_undisturbed(both(merge_keys).map(edited), "path independence");
}

/// The broken version looks for surplus parts only in the first page of a list.
async fn prune_first_page(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let Some(live) = pages(&cx).get_opt("home").await? else { return Ok(Action::await_change()) };
    for number in 0..live.spec.count {
        let mut part = child(&page, &format!("part-{number}"), "");
        part.labels_mut().insert("page".to_owned(), "home".to_owned());
        ensure(&api, &part).await?;
    }
    let found = ListParams::default().labels("page=home");
    let found = if is_cured { found } else { found.limit(1) };
    for part in api.list(&found).await? {
        let number = part.name_any().strip_prefix("part-").and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number >= live.spec.count) {
            cx.delete(&part).await?;
        }
    }
    Ok(Action::await_change())
}

#[test]
fn a_list_of_which_only_the_first_page_is_read() {
    let pair = both(prune_first_page).map(|one| {
        one.then(edit::<Page>("home", |page| page.spec.count = 3))
            .then(edit::<Page>("home", |page| page.spec.count = 1))
    });
    check_undisturbed(pair, "path independence");
}

/// The broken version records the new name of its child before it deletes the child with the former name.
async fn rename_child(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let Some(live) = pages(&cx).get_opt("home").await? else { return Ok(Action::await_change()) };
    let (wanted, api) = (format!("child-{}", live.spec.text), config_maps(&cx));
    let former = live.status.map(|status| status.seen).filter(|seen| *seen != wanted && !seen.is_empty());
    let is_recorded = page.status.as_ref().is_some_and(|status| status.seen == wanted);
    if !is_recorded && !is_cured {
        record(&cx, &wanted).await?;
    }
    ensure(&api, &child(&page, &wanted, "")).await?;
    if let Some(former) = former {
        match api.delete(&former, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other?),
        }
    }
    if !is_recorded && is_cured {
        record(&cx, &wanted).await?;
    }
    Ok(Action::await_change())
}

async fn record(cx: &Context<Page>, seen: &str) -> Result<()> {
    let status = Patch::Merge(json!({"status": {"seen": seen}}));
    pages(cx).patch_status("home", &PatchParams::default(), &status).await?;
    Ok(())
}

#[test]
fn a_former_name_that_is_forgotten() {
    let [broken, cured] =
        both(rename_child).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    check(broken, cured, &["same end"]);
}
