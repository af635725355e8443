//! Injects one fault around the user's steps at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_runtime::{Action, Context, Controller, Operator, Result, terminal};
use homeostat_sim::{Fault, Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::kinds::{Page, PageSpec, both, check_fault, child, config_maps, ensure, operator, page};

/// Annotates the page. The broken version also writes back the whole spec from its cache.
async fn annotate(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let live = pages.get("home").await?;
    if live.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("demo.dev/seen")) {
        return Ok(Action::await_change());
    }
    let mut patch = json!({"metadata": {"annotations": {"demo.dev/seen": "yes"}}});
    if !is_cured {
        patch["spec"] = serde_json::to_value(&page.spec)?;
    }
    pages.patch("home", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Action::await_change())
}

#[test]
fn the_user_edits_first() {
    let pair = both(annotate).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    check_fault(pair, "patch pages.demo.dev default/home", &Fault::StepFirst, "same end");
}

/// Creates a ConfigMap for each page. The broken version does not set an owner: it remembers in memory what to delete.
fn collector(owns: bool) -> Operator {
    let made: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(move |page, cx| {
        let made = Arc::clone(&made);
        async move {
            let name = page.metadata.name.clone().unwrap_or_default();
            let mut object = child(&page, &name, "");
            if !owns {
                object.metadata.owner_references = None;
            }
            ensure(&config_maps(&cx), &object).await?;
            if !owns && made.lock().expect("nobody panics while it holds the lock").insert(name.clone()) {
                let client = cx.client().clone();
                tokio::spawn(async move {
                    let pages: Api<Page> = Api::namespaced(client.clone(), "default");
                    let children: Api<ConfigMap> = Api::namespaced(client, "default");
                    while !matches!(pages.get_opt(&name).await, Ok(None)) {
                        tokio::time::sleep(Duration::from_secs(5)).await;
                    }
                    while children.delete(&name, &DeleteParams::default()).await.is_err() {
                        tokio::time::sleep(Duration::from_secs(5)).await;
                    }
                });
            }
            Ok(Action::await_change())
        }
    });
    operator().control(pages)
}

#[test]
fn the_operator_is_down() {
    let pair = [false, true]
        .map(|owns| Simulation::new(move || collector(owns)).given(page("home", PageSpec::default())));
    check_fault(pair, "at rest after the start #2", &Fault::Down, "same end");
}

/// Depends on another page. The broken version does not notice when that page is created.
async fn refer(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let target = page.spec.text.clone();
    if !target.is_empty() {
        let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        if pages.get_opt(&target).await?.is_none() {
            return Ok(if is_cured {
                Action::requeue(Duration::from_secs(30))
            } else {
                Action::await_change()
            });
        }
        cx.apply(child(&page, "link", &target)).await?;
    }
    Ok(Action::await_change())
}

fn two_pages(make: impl Fn() -> Operator + Send + Sync + 'static) -> Simulation {
    Simulation::new(make)
        .given(page("target", PageSpec::default()))
        .given(page("home", PageSpec { text: "target".into(), ..PageSpec::default() }))
}

#[test]
fn a_reference_comes_late() {
    let pair = [false, true].map(|is_cured| {
        two_pages(move || {
            let pages = Controller::<Page>::new().owns::<ConfigMap>();
            operator().control(pages.reconcile(move |page, cx| refer(page, cx, is_cured)))
        })
    });
    check_fault(pair, "at rest after the start", &Fault::Postpone { given: 1 }, "same end");
}

/// Cleans up a page that refers to another. The broken version fails if the other page is gone.
async fn leave(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let target = page.spec.text.clone();
    if !target.is_empty() {
        let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        if pages.get_opt(&target).await?.is_none() && !is_cured {
            return Err(terminal("the page it refers to is gone"));
        }
    }
    Ok(Action::await_change())
}

#[test]
fn two_steps_are_swapped() {
    let pair = [false, true].map(|is_cured| {
        two_pages(move || {
            let pages = Controller::<Page>::new().cleanup(move |page, cx| leave(page, cx, is_cured));
            operator().control(pages.reconcile(|_, _| async { Ok(Action::await_change()) }))
        })
    });
    check_fault(pair, "at rest after the start", &Fault::SwapSteps, "converges");
}
