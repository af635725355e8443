//! State in the memory of the process: it is lost with the process, and becomes wrong when the cluster changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::check;
use crate::kinds::{Page, PageSpec, child, config_maps, ensure, operator, page};

#[derive(Default)]
struct Memory(Mutex<BTreeSet<String>>);

impl Memory {
    /// Returns whether the name is new.
    fn insert(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned())
    }
}

fn scenario<F>(reconcile: fn(Arc<Page>, Context<Page>, bool) -> F) -> [Simulation; 2]
where
    F: Future<Output = Result<Action>> + Send + 'static,
{
    [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<ConfigMap>().needs_state::<Memory>();
            let pages = pages.reconcile(move |page, cx| reconcile(page, cx, is_cured));
            operator().state(Memory::default()).control(pages)
        })
        .given(page("home", PageSpec { text: "a".into(), count: 2, is_public: true }))
    })
}

/// The broken version remembers what it has created instead of checking whether it exists.
async fn make_once(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    if is_cured || cx.state::<Memory>().insert("child") {
        ensure(&config_maps(&cx), &child(&page, "child", "")).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_child_that_was_made_once() {
    let [broken, cured] = scenario(make_once);
    check(broken, cured, &["same end"]);
}

/// The broken version deletes surplus parts only if the same process created them.
async fn delete_parts_of_before(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let (api, memory) = (config_maps(&cx), cx.state::<Memory>());
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let Some(live) = pages.get_opt("home").await? else { return Ok(Action::await_change()) };
    for number in 0..live.spec.count {
        let name = format!("part-{number}");
        ensure(&api, &child(&page, &name, "")).await?;
        memory.insert(&name);
    }
    let known: Vec<String> = if is_cured {
        cx.owned::<ConfigMap>()?.iter().map(|part| part.name_any()).collect()
    } else {
        memory.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    };
    for name in known {
        let number = name.strip_prefix("part-").and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number >= live.spec.count) {
            match api.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
    }
    Ok(Action::await_change())
}

#[test]
fn parts_that_a_former_process_created() {
    let [broken, cured] = scenario(delete_parts_of_before)
        .map(|one| one.then(edit::<Page>("home", |page| page.spec.count = 1)));
    check(broken, cured, &["same end", "path independence"]);
}

/// The broken version adds to a stored count whenever it creates something.
async fn count_children(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let seen = |page: &Page| page.status.as_ref().and_then(|status| status.seen.parse::<usize>().ok());
    let mut total = if is_cured { 0 } else { seen(&page).unwrap_or_default() };
    for number in 0..page.spec.count {
        let name = format!("part-{number}");
        let is_there = api.get_opt(&name).await?.is_some();
        ensure(&api, &child(&page, &name, "")).await?;
        total += usize::from(is_cured || !is_there);
    }
    if seen(&page) != Some(total) {
        let status = Patch::Merge(json!({"status": {"seen": total.to_string()}}));
        pages.patch_status("home", &PatchParams::default(), &status).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_count_that_is_added_up() {
    let [broken, cured] = scenario(count_children);
    check(broken, cured, &["same end"]);
}
