//! Operators that mistake what they cannot see for what does not exist: read errors, and references they do not watch.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::check;
use crate::kinds::{Page, PageSpec, both, check_undisturbed, child, config_maps, ensure, operator, page};

fn settings(text: &str) -> ConfigMap {
    let mut settings =
        ConfigMap { data: Some([("text".to_owned(), text.to_owned())].into()), ..ConfigMap::default() };
    settings.metadata.name = Some("settings".to_owned());
    settings.metadata.namespace = Some("default".to_owned());
    settings
}

fn text_of(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("text")).cloned().unwrap_or_default()
}

/// The broken version treats a failed read as missing settings, and deletes what the settings ask for.
async fn follow_settings(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let read = api.get_opt("settings").await;
    let settings = if is_cured { read? } else { read.unwrap_or_default() };
    match (settings, api.get_opt("child").await?) {
        (Some(_), None) => ensure(&api, &child(&page, "child", "")).await?,
        (None, Some(_)) => drop(api.delete("child", &DeleteParams::default()).await?),
        _ => {}
    }
    Ok(Action::await_change())
}

#[test]
fn a_read_error_mistaken_for_absence() {
    let [broken, cured] = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new()
                .owns::<ConfigMap>()
                .watches::<ConfigMap, _>(|map| (map.name_any() == "settings").then(|| "home".to_owned()));
            operator().control(pages.reconcile(move |page, cx| follow_settings(page, cx, is_cured)))
        })
        .given(page("home", PageSpec::default()))
        .given(settings("on"))
    });
    check(broken, cured, &["justified deletion", "same end"]);
}

/// The broken version reads an object that it does not watch.
async fn copy_settings(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let settings = config_maps(&cx).get_opt("settings").await?;
    let text = settings.as_ref().map(text_of).unwrap_or_default();
    let mut copy = child(&page, "copy", &text);
    copy.metadata.owner_references = None;
    cx.apply(copy).await?;
    Ok(if is_cured { Action::requeue(Duration::from_secs(600)) } else { Action::await_change() })
}

#[test]
fn a_reference_that_nobody_watches() {
    let edited = |one: Simulation| {
        one.given(settings("a")).then(edit::<ConfigMap>("settings", |map| {
            map.data = Some([("text".to_owned(), "b".to_owned())].into());
        }))
    };
    check_undisturbed(both(copy_settings).map(edited), "quiet at rest");
}
