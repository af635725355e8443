//! Writers that undo each other's work, or their own: two controllers that write one status, a comparison that includes
//! the server's defaults, a list whose order changes with every run, and an object that the first writer wins.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Result, condition};
use homeostat_sim::Simulation;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::check;
use crate::kinds::{Page, PageSpec, both, check_undisturbed, child, config_maps, ensure, operator, page};

fn pages(cx: &Context<Page>) -> Api<Page> {
    Api::namespaced(cx.client().clone(), "default")
}

/// The broken version replaces the whole status, including what the other controller reports.
async fn replace_status(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let status = page.status.clone().unwrap_or_default();
    let is_whole = is_cured || status.base.conditions.is_empty();
    if status.seen == page.spec.text && is_whole {
        return Ok(Action::await_change());
    }
    if is_cured {
        let status = Patch::Merge(json!({"status": {"seen": page.spec.text}}));
        pages(&cx).patch_status("home", &PatchParams::default(), &status).await?;
    } else {
        let mut replaced = Page::clone(&page);
        replaced.status = Some(serde_json::from_value(json!({"seen": page.spec.text}))?);
        pages(&cx).replace_status("home", &PostParams::default(), &replaced).await?;
    }
    Ok(Action::await_change())
}

async fn report_published(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    cx.condition(condition("Published", true, "Published", page.spec.text.clone()));
    Ok(Action::await_change())
}

#[test]
fn two_controllers_of_one_status() {
    let pair = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let first = Controller::<Page>::new().named("texts");
            let second = Controller::<Page>::new().named("conditions");
            operator()
                .control(first.reconcile(move |page, cx| replace_status(page, cx, is_cured)))
                .control(second.reconcile(report_published))
        })
        .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
    });
    check_undisturbed(pair, "hot loop");
}

/// Returns whether the stored value contains everything wanted. Fields that the server filled in are ignored.
fn contains(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| stored.get(name).is_some_and(|there| contains(there, value)))
        }
        (Value::Array(stored), Value::Array(wanted)) => {
            stored.len() == wanted.len() && stored.iter().zip(wanted).all(|(one, other)| contains(one, other))
        }
        _ => stored == wanted,
    }
}

/// The broken version compares its Service with the stored one field by field, and recreates it if they differ.
async fn make_anew_if_different(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let services: Api<Service> = Api::namespaced(cx.client().clone(), "default");
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    let owner = child(&page, "web", "").metadata;
    let wanted: Service = serde_json::from_value(json!({"metadata": owner, "spec": spec}))?;
    if let Some(stored) = services.get_opt("web").await? {
        let stored = serde_json::to_value(&stored.spec)?;
        let is_equal = if is_cured { contains(&stored, &spec) } else { stored == spec };
        if is_equal {
            return Ok(Action::await_change());
        }
        services.delete("web", &DeleteParams::default()).await?;
    }
    match services.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

#[test]
fn a_comparison_that_includes_server_defaults() {
    let pair = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<Service>();
            operator().control(pages.reconcile(move |page, cx| make_anew_if_different(page, cx, is_cured)))
        })
        .given(page("home", PageSpec::default()))
    });
    check_undisturbed(pair, "hot loop");
}

/// The broken version lists words in a random order, as if it iterated over a hash map.
async fn list_words(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let mut words: Vec<String> = (0..8).map(|number| format!("word{number}")).collect();
    if !is_cured {
        let first = cx.entropy().below(words.len() as u64);
        words.rotate_left(usize::try_from(first).unwrap_or_default());
    }
    cx.apply(child(&page, "words", &words.join(" "))).await?;
    Ok(Action::await_change())
}

#[test]
fn words_in_a_different_order_each_time() {
    let [broken, cured] = both(list_words);
    let few = homeostat_sim::Budget { schedules: 3, seconds: 3600 };
    let found = broken.budget(few).explore().failure.expect("the bug is found");
    assert!(["hot loop", "quiet at rest"].contains(&&*found.oracle), "{}", found.report);
    if let Some(failure) = cured.budget(few).explore().failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

/// Two pages want the same address. The broken version gives it to the page that is reconciled first; the cured version
/// gives it to the first page by name, regardless of the order.
async fn take_address(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let rivals = pages(&cx).list(&ListParams::default()).await?;
    let winner = rivals.iter().min_by_key(|rival| rival.name_any());
    match winner {
        Some(winner) if is_cured => {
            cx.apply_unowned(child(winner, "address", &winner.name_any())).await?;
        }
        _ => ensure(&config_maps(&cx), &child(&page, "address", &page.name_any())).await?,
    }
    Ok(Action::await_change())
}

/// At rest, each of the two pages applies the address once per resync, which the oracles allow.
#[test]
fn an_address_that_the_first_writer_wins() {
    let [broken, cured] = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new()
                .watches::<ConfigMap, _>(|map| {
                    let names = ["one".to_owned(), "two".to_owned()];
                    names.into_iter().filter(|_| map.name_any() == "address").collect::<Vec<_>>()
                })
                .writes::<ConfigMap>();
            operator().control(pages.reconcile(move |page, cx| take_address(page, cx, is_cured)))
        })
        .given(page("one", PageSpec::default()))
        .given(page("two", PageSpec::default()))
    });
    check(broken, cured, &["same end"]);
}
