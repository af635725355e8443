//! Caches that lag, and changes that the operator does not watch.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::Simulation;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;

use crate::kinds::{Page, PageSpec, check, child, config_maps, ensure, operator, page};

/// Creates as many copies as the cache lacks, with generated names.
async fn broken(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let there = cx.list::<ConfigMap>()?.iter().filter(|one| one.data.is_some() && is_copy(one)).count();
    if there < page.spec.count {
        let mut copy = child(&page, "", "copy");
        copy.metadata.name = None;
        copy.metadata.generate_name = Some("copy-".into());
        config_maps(&cx).create(&PostParams::default(), &copy).await?;
        return Ok(Action::requeue_now());
    }
    Ok(Action::await_change())
}

fn is_copy(config_map: &ConfigMap) -> bool {
    config_map.metadata.name.as_deref().is_some_and(|name| name.starts_with("copy-"))
}

/// Creates copies with names that are derived from the owner, so that the server refuses duplicates.
async fn cured(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    for number in 0..page.spec.count {
        let name = format!("copy-{number}");
        if !cx.list::<ConfigMap>()?.iter().any(|one| one.metadata.name.as_deref() == Some(&name)) {
            ensure(&config_maps(&cx), &child(&page, &name, "copy")).await?;
        }
    }
    Ok(Action::await_change())
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(page("home", PageSpec { count: 1, ..PageSpec::default() }))
}

#[test]
fn counting_by_a_stale_cache_is_found() {
    check(
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(broken))),
        simulation(|| operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(cured))),
        &["justified creation", "same end", "hot loop"],
    );
}

async fn make_child(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let api = config_maps(&cx);
    if api.get_opt("child").await?.is_none() {
        ensure(&api, &child(&page, "child", "text")).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn an_unwatched_child_is_found() {
    check(
        simulation(|| operator().control(Controller::<Page>::new().reconcile(make_child))),
        simulation(|| {
            operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(make_child))
        }),
        &["same end"],
    );
}
