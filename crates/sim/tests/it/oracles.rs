//! Oracles that need no fault, or that the tests of faults do not cover.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Controller, Result, terminal};
use homeostat_sim::{Simulation, create, delete, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::kinds::{
    Page, PageSpec, both, check, check_undisturbed, child, config_maps, ensure, operator, page,
};

async fn patch_status(cx: &Context<Page>, status: Value) -> Result<()> {
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    pages.patch_status("home", &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}

/// The broken version creates an object without an owner.
async fn make_orphan(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let mut object = child(&page, "child", "");
    if !is_cured {
        object.metadata.owner_references = None;
    }
    ensure(&config_maps(&cx), &object).await?;
    Ok(Action::await_change())
}

#[test]
fn an_object_without_an_owner_is_a_leak() {
    check_undisturbed(both(make_orphan), "no leak");
}

/// The broken version reports `Ready=True`, and never changes it to False.
async fn say_ready(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let is_bad = page.spec.text == "bad";
    let stored = page.status.as_ref().map(|status| status.base.conditions.clone()).unwrap_or_default();
    let (readies, others): (Vec<_>, Vec<_>) = stored.into_iter().partition(|one| one.type_ == "Ready");
    let is_said = readies.iter().any(|one| {
        one.observed_generation == page.metadata.generation
            && one.status == if is_bad { "False" } else { "True" }
    });
    if !is_said && (!is_bad || is_cured) {
        let ready = json!({"type": "Ready", "status": if is_bad { "False" } else { "True" }, "reason": "Done",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": page.metadata.generation});
        let mut conditions = vec![ready];
        for other in &others {
            conditions.push(serde_json::to_value(other)?);
        }
        // If others have added conditions since the read, the server answers with a conflict.
        let read = json!({"resourceVersion": page.metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": read, "status": {"conditions": conditions}}));
        let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        pages.patch_status("home", &PatchParams::default(), &patch).await?;
    }
    if is_bad { Err(terminal("a bad text")) } else { Ok(Action::await_change()) }
}

#[test]
fn a_wrong_ready_condition_is_found() {
    let pair =
        both(say_ready).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "bad".into())));
    let [broken, cured] = pair;
    let found = broken.budget(crate::kinds::BUDGET).explore().failure.expect("the bug is found");
    assert_eq!(found.oracle, "truthful status", "{}", found.report);
    let outcome = cured.budget(crate::kinds::SAMPLE).explore();
    assert!(outcome.failure.is_none(), "a false alarm:\n{}", outcome.failure.unwrap().report);
}

/// The broken version does not delete what only an earlier spec wanted.
async fn make_many(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    for number in 0..page.spec.count {
        ensure(&config_maps(&cx), &child(&page, &format!("part-{number}"), "")).await?;
    }
    for number in page.spec.count..4 {
        let name = format!("part-{number}");
        if is_cured && config_maps(&cx).get_opt(&name).await?.is_some() {
            config_maps(&cx).delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(Action::await_change())
}

#[test]
fn the_end_does_not_depend_on_the_path() {
    let pair = both(make_many).map(|one| {
        one.then(edit::<Page>("home", |page| page.spec.count = 3))
            .then(edit::<Page>("home", |page| page.spec.count = 1))
    });
    check_undisturbed(pair, "path independence");
}

/// Steps that are generated from the schema find the same bug.
#[test]
fn generated_steps_find_leftovers_of_earlier_specs() {
    let pair = both(make_many).map(|one| one.then_vary::<Page>("home"));
    check_undisturbed(pair, "path independence");
}

/// The broken version writes every minute, forever.
async fn count_slowly(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let minute = cx.now().as_second() / 60;
    let seen = page.status.as_ref().map(|status| status.seen.clone()).unwrap_or_default();
    if seen.is_empty() || !is_cured && seen != minute.to_string() {
        patch_status(&cx, json!({"seen": minute.to_string()})).await?;
    }
    Ok(Action::requeue(Duration::from_secs(60)))
}

#[test]
fn an_operator_that_never_stops_writing_does_not_converge() {
    let [broken, cured] = both(count_slowly);
    check_undisturbed([broken, cured], "converges");
}

/// The broken version deletes whichever object currently has the name.
async fn replace_child(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let name = page.metadata.name.clone().unwrap_or_default();
    match cx.get::<ConfigMap>(&name)? {
        None => ensure(&api, &child(&page, &name, &page.spec.text)).await?,
        Some(stored)
            if is_cured
                && stored.metadata.owner_references != child(&page, &name, "").metadata.owner_references => {}
        Some(stored) if stored.data.as_ref().and_then(|data| data.get("text")) != Some(&page.spec.text) => {
            let mut how = DeleteParams::default();
            if is_cured {
                how = how.preconditions(kube::api::Preconditions {
                    uid: stored.metadata.uid.clone(),
                    resource_version: None,
                });
            }
            match api.delete(&name, &how).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                other => drop(other?),
            }
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

#[test]
fn deleting_another_object_of_the_same_name_is_found() {
    let [broken, cured] = both(replace_child).map(|one| {
        let anew = page("home", PageSpec { text: "anew".into(), ..PageSpec::default() });
        one.then(delete::<Page>("home")).then(create(anew))
    });
    check(broken, cured, &["justified deletion", "same object"]);
}

fn pages_with<F, Fut>(reconcile: F) -> Simulation
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Simulation::new(move || {
        let reconcile = reconcile.clone();
        let pages = Controller::<Page>::new().reconcile(move |_, _| {
            let work = reconcile();
            async move {
                work.await;
                Ok(Action::await_change())
            }
        });
        operator().control(pages)
    })
    .given(page("home", PageSpec::default()))
}

#[track_caller]
fn check_named(broken: Simulation, words: &str) {
    let harmless = || tokio::time::sleep(Duration::from_millis(20));
    let found = broken.budget(crate::kinds::BUDGET).explore().failure.expect("the bug is found");
    assert_eq!(found.oracle, "deterministic", "{}", found.report);
    assert!(found.text.contains(words), "{}", found.text);
    let cured = pages_with(harmless).budget(homeostat_sim::Budget { schedules: 4, seconds: 3600 });
    assert!(cured.explore().failure.is_none());
}

#[test]
fn use_of_threads_is_reported() {
    check_named(pages_with(|| async { drop(tokio::task::spawn_blocking(|| ()).await) }), "uses threads");
}

#[test]
fn real_io_is_reported() {
    let connect = || async { drop(tokio::net::TcpStream::connect("127.0.0.1:1").await) };
    check_named(pages_with(connect), "real I/O");
}

#[test]
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "this is what the simulator must notice")]
fn a_blocking_call_is_reported() {
    let block = || async { std::thread::sleep(Duration::from_millis(30)) };
    check_named(pages_with(block), "blocks its thread");
}
