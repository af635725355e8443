//! Deletions: a finalizer that is removed too early, a cleanup that fails silently, and a child that is created for a
//! deleted object.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::Simulation;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::check;
use crate::kinds::{Page, PageSpec, child, config_maps, ensure, operator, page};

const FINALIZER: &str = "demo.dev/entry";

fn pages(cx: &Context<Page>) -> Api<Page> {
    Api::namespaced(cx.client().clone(), "default")
}

/// Returns a ConfigMap without an owner, which only the operator's finalizer deletes.
fn entry(page: &Page) -> ConfigMap {
    let mut entry = child(page, "entry", "");
    entry.metadata.owner_references = None;
    entry
}

async fn delete_entry(api: &Api<ConfigMap>) -> Result<()> {
    match api.delete("entry", &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn scenario(
    make: impl Fn(Controller<Page>) -> homeostat_runtime::BuiltController + Send + Sync + 'static,
) -> Simulation {
    Simulation::new(move || {
        let controller = Controller::<Page>::new()
            .watches::<ConfigMap, _>(|map| (map.name_any() == "entry").then(|| "home".to_owned()))
            .writes::<ConfigMap>();
        operator().control(make(controller))
    })
    .given(page("home", PageSpec::default()))
}

/// The broken version removes the finalizer first, and then deletes what belongs to the object.
async fn release(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let has_finalizer = page.finalizers().iter().any(|name| name == FINALIZER);
    let set = |names: serde_json::Value| {
        let version = page.metadata.resource_version.clone();
        Patch::Merge(json!({"metadata": {"finalizers": names, "resourceVersion": version}}))
    };
    let how = PatchParams::default();
    if page.metadata.deletion_timestamp.is_none() {
        if !has_finalizer {
            pages(&cx).patch("home", &how, &set(json!([FINALIZER]))).await?;
        }
        // The cache may be old.
        if pages(&cx).get_opt("home").await?.is_some_and(|now| now.metadata.deletion_timestamp.is_none()) {
            ensure(&config_maps(&cx), &entry(&page)).await?;
        }
        return Ok(Action::await_change());
    }
    if has_finalizer && is_cured {
        delete_entry(&config_maps(&cx)).await?;
    }
    if has_finalizer {
        pages(&cx).patch("home", &how, &set(json!(null))).await?;
    }
    if has_finalizer && !is_cured {
        delete_entry(&config_maps(&cx)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_finalizer_that_is_released_first() {
    let [broken, cured] = [false, true].map(|is_cured| {
        scenario(move |pages| pages.to_the_end().reconcile(move |page, cx| release(page, cx, is_cured)))
    });
    check(broken, cured, &["same end", "no leak"]);
}

async fn make_entry(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    if pages(&cx).get_opt("home").await?.is_some_and(|now| now.metadata.deletion_timestamp.is_none()) {
        ensure(&config_maps(&cx), &entry(&page)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_cleanup_that_ignores_errors() {
    let [broken, cured] = [false, true].map(|is_cured| {
        scenario(move |pages| {
            let pages = pages.cleanup(move |_, cx: Context<Page>| async move {
                let deleted = delete_entry(&config_maps(&cx)).await;
                if is_cured {
                    deleted?;
                }
                Ok(Action::await_change())
            });
            pages.reconcile(make_entry)
        })
    });
    check(broken, cured, &["same end", "no leak"]);
}

/// The broken version creates an entry for an object that is being deleted or is already gone.
#[test]
fn an_entry_for_an_object_that_is_gone() {
    let [broken, cured] = [false, true].map(|is_cured| {
        scenario(move |pages| {
            let pages = pages.cleanup(|_, cx: Context<Page>| async move {
                delete_entry(&config_maps(&cx)).await?;
                Ok(Action::await_change())
            });
            pages.reconcile(move |page, cx| async move {
                if is_cured {
                    return make_entry(page, cx).await;
                }
                ensure(&config_maps(&cx), &entry(&page)).await?;
                Ok(Action::await_change())
            })
        })
    });
    check(broken, cured, &["same end", "no leak"]);
}
