//! Injects one fault of a call at a time: the broken version of an operator does not handle it, the cured one does.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::{Fault, Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};

use crate::kinds::{Page, both, check_fault, child, config_maps, ensure};

/// The broken version ignores errors.
async fn make_child(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let made = ensure(&config_maps(&cx), &child(&page, "child", "text")).await;
    if is_cured {
        made?;
    }
    Ok(Action::await_change())
}

#[test]
fn errors_without_effect() {
    let at = "create configmaps default/child";
    for fault in [Fault::Refuse { code: 500 }, Fault::Refuse { code: 429 }, Fault::LoseRequest] {
        check_fault(both(make_child), at, &fault, "same end");
    }
}

/// The broken version creates a second child under another name if it does not learn that the first creation succeeded.
async fn make_copy(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let mut copy = child(&page, "copy", "text");
    if is_cured {
        ensure(&config_maps(&cx), &copy).await?;
        return Ok(Action::await_change());
    }
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    if pages.get("home").await?.status.is_none_or(|status| status.seen.is_empty()) {
        copy.metadata.name = None;
        copy.metadata.generate_name = Some("copy".into());
        let made = config_maps(&cx).create(&PostParams::default(), &copy).await?;
        let status = serde_json::json!({"status": {"seen": made.metadata.name}});
        pages.patch_status("home", &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn errors_with_effect() {
    for fault in [Fault::LoseAnswer, Fault::RefuseAfter { code: 504 }, Fault::CrashAfter] {
        let [broken, cured] = both(make_copy);
        let found =
            broken.replay(&crate::kinds::trace("create configmaps default/copy*", fault.clone())).failure;
        let found = found.expect("the bug is found");
        assert_eq!(found.oracle, "justified creation", "{}", found.report);
        let trace = crate::kinds::trace("create configmaps default/copy", fault);
        assert!(cured.replay(&trace).failure.is_none());
    }
}

/// The broken version overwrites what others wrote.
async fn write_child(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let wanted = child(&page, "child", &page.spec.text);
    match api.get_opt("child").await? {
        None => ensure(&api, &wanted).await?,
        Some(stored) if stored.data == wanted.data => {}
        Some(_) if is_cured => {
            let patch = serde_json::json!({"data": wanted.data});
            api.patch("child", &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Some(_) => {
            api.replace("child", &PostParams::default(), &wanted).await?;
        }
    }
    Ok(Action::await_change())
}

#[test]
fn a_second_writer() {
    let [broken, cured] =
        both(write_child).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    let found = broken.replay(&crate::kinds::trace("update configmaps default/child", Fault::ForeignWrite));
    let found = found.failure.expect("the bug is found");
    assert_eq!(found.oracle, "foreign fields kept", "{}", found.report);
    let trace = crate::kinds::trace("patch configmaps default/child", Fault::ForeignWrite);
    assert!(cured.replay(&trace).failure.is_none());
}

/// The broken version does not wait for its first write, which may therefore arrive last.
async fn write_detached(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    if api.get_opt("child").await?.is_some() {
        return Ok(Action::await_change());
    }
    let how = PatchParams::apply("pages").force();
    let draft = child(&page, "child", "draft");
    let (first, hurry) = (api.clone(), how.clone());
    let write = async move { first.patch("child", &hurry, &Patch::Apply(&draft)).await };
    if is_cured {
        write.await?;
    } else {
        tokio::spawn(write);
        tokio::task::yield_now().await;
    }
    api.patch("child", &how, &Patch::Apply(&child(&page, "child", "final"))).await?;
    Ok(Action::await_change())
}

#[test]
fn a_slow_call() {
    check_fault(
        both(write_detached),
        "patch configmaps default/child",
        &Fault::Slow { seconds: 1 },
        "same end",
    );
}

/// The broken version panics if a recorded time is in the future.
async fn remember_time(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let seen = page.status.as_ref().map(|status| status.seen.clone()).unwrap_or_default();
    let Ok(seen) = seen.parse::<jiff::Timestamp>() else {
        let api: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        let status = serde_json::json!({"status": {"seen": cx.now().to_string()}});
        api.patch_status("home", &PatchParams::default(), &Patch::Merge(status)).await?;
        return Ok(Action::await_change());
    };
    let age = cx.now().duration_since(seen).as_secs();
    if !is_cured {
        u64::try_from(age).expect("what was written before now is older than now");
    }
    Ok(Action::await_change())
}

#[test]
fn a_clock_that_is_behind() {
    let fault = Fault::RestartSkewed { seconds: -900 };
    check_fault(both(remember_time), "at rest after the start", &fault, "no panic");
    let fault = Fault::RestartSkewed { seconds: 900 };
    let [_, cured] = both(remember_time);
    assert!(cured.replay(&crate::kinds::trace("at rest after the start", fault)).failure.is_none());
}

/// The broken version measures the duration of a write with the wall clock.
async fn measure_write(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let began = cx.now();
    let how = PatchParams::apply("pages");
    config_maps(&cx).patch("child", &how, &Patch::Apply(&child(&page, "child", "text"))).await?;
    let took = cx.now().duration_since(began).as_secs();
    if !is_cured {
        u64::try_from(took).expect("a write cannot end before it began");
    }
    Ok(Action::await_change())
}

#[test]
fn a_clock_that_is_set_back_while_the_operator_runs() {
    let fault = Fault::JumpClock { seconds: -900 };
    check_fault(both(measure_write), "patch configmaps default/child", &fault, "no panic");
}

/// The broken version assumes that a record with a future time comes from a newer writer, and does nothing.
async fn write_later_text(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let written = cx.get::<ConfigMap>("child")?.and_then(|child| child.data.clone()?.remove("text"));
    if written.as_ref() == Some(&page.spec.text) {
        return Ok(Action::await_change());
    }
    let seen = page.status.as_ref().map(|status| status.seen.clone()).unwrap_or_default();
    let is_newer = seen.parse::<jiff::Timestamp>().is_ok_and(|seen| cx.now() < seen);
    if is_newer && !is_cured {
        return Ok(Action::await_change());
    }
    let how = PatchParams::apply("pages").force();
    let api: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let status = serde_json::json!({"status": {"seen": cx.now().to_string()}});
    api.patch_status("home", &PatchParams::default(), &Patch::Merge(status)).await?;
    config_maps(&cx).patch("child", &how, &Patch::Apply(&child(&page, "child", &page.spec.text))).await?;
    Ok(Action::await_change())
}

#[test]
fn a_clock_that_is_set_back_at_rest() {
    let edited =
        |simulation: Simulation| simulation.then(edit::<Page>("home", |page| page.spec.text = "bye".into()));
    let fault = Fault::JumpClock { seconds: -900 };
    check_fault(both(write_later_text).map(edited), "at rest after the start", &fault, "same end");
}

/// The broken version trusts a list that the server may answer from an old cache (`resourceVersion=0`).
async fn make_unless_listed(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let how = if is_cured { ListParams::default() } else { ListParams::default().match_any() };
    let listed = config_maps(&cx).list(&how).await?;
    if listed.items.iter().all(|one| one.metadata.generate_name.is_none()) {
        let mut copy = child(&page, "copy", "text");
        copy.metadata.name = None;
        copy.metadata.generate_name = Some("copy".into());
        config_maps(&cx).create(&PostParams::default(), &copy).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_list_from_a_cache_that_is_behind() {
    let fault = Fault::StaleRead { changes: 1 };
    check_fault(both(make_unless_listed), "list configmaps default #2", &fault, "justified creation");
}
