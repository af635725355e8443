//! Tests failing handlers: retries, time limits, giving up, and the edit that starts over.

use std::sync::Arc;
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, HandlerOutcome};
use homeostat_runtime::handlers::HandlerContext;
use homeostat_runtime::handlers::options::HandlerDeclared;
use homeostat_runtime::{Backoff, Handlers, Result, retry_after, terminal};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use super::{Gadget, Made, gadget, get, kill, lab, run, says};
use crate::test_cluster::{Log, config};

/// A create handler whose failure depends on the size: 1 is busy, 2 fails permanently, 3 with an unknown error, 4
/// hangs, 5 panics.
pub(super) fn failing(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new()
        .on_create("create", move |gadget: Arc<Gadget>, cx: HandlerContext<Gadget>| {
            log.say(format!("{} #{}", gadget.spec.size, cx.attempt()));
            async move {
                match gadget.spec.size {
                    1 => Err(retry_after(Duration::from_secs(20), "busy")),
                    2 => Err(terminal("never")),
                    3 => Err("broken")?,
                    4 => std::future::pending().await,
                    5 => panic!("boom"),
                    _ => Ok(Made { name: "it".into() }),
                }
            }
        })
        .backoff(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(60)).jitter(0.0))
}

#[tokio::test(start_paused = true)]
async fn a_result_is_stored_in_the_status() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, failing(&log)).await;
    gadget(&lab, "g", 0).await;
    assert_eq!(get(&lab, "g").await.unwrap().status.unwrap().create, Some(Made { name: "it".into() }));
}

#[tokio::test(start_paused = true)]
async fn temporary_errors_say_when() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, failing(&log)).await;
    gadget(&lab, "g", 1).await;
    lab.pass(45).await;
    assert_eq!(log.take(), ["1 #1", "1 #2", "1 #3"]);
    kill(&lab, &running).await;
    run(&mut lab, failing(&log)).await;
    assert!(log.take().is_empty(), "the pause outlives the process");
    lab.pass(16).await;
    assert_eq!(log.take(), ["1 #4"], "so do the attempts");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    assert_eq!(log.take(), ["0 #1"], "an edit is handled at once");
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_wait_for_an_edit() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, failing(&log).on_update("other", |_, _| async { Ok(()) })).await;
    gadget(&lab, "g", 2).await;
    let events = lab.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        events[0].message.as_deref(),
        Some("create: never (attempt 1; no further try until the object is edited)")
    );
    lab.pass(36_000).await;
    assert_eq!(log.take(), ["2 #1"]);
    let outcomes: Vec<HandlerOutcome> = running
        .journal
        .records()
        .into_iter()
        .filter_map(|record| match record.entry {
            Entry::Handled { outcome, .. } => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [HandlerOutcome::GaveUp { error: "never".into() }]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    assert_eq!(log.take(), ["0 #1"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_errors_and_panics_back_off_until_the_retries_are_used_up() {
    for size in [3, 5] {
        let mut lab = lab().await;
        let log = lab.log.clone();
        run(&mut lab, failing(&log).retries(2)).await;
        gadget(&lab, "g", size).await;
        lab.pass(29).await;
        assert_eq!(log.take(), [format!("{size} #1"), format!("{size} #2")]);
        lab.pass(36_000).await;
        assert_eq!(log.take(), [format!("{size} #3")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_from_the_first_attempt_and_cuts_off() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, failing(&log).timeout(Duration::from_secs(50)).on_update("other", |_, _| async { Ok(()) }))
        .await;
    gadget(&lab, "hangs", 4).await;
    lab.pass(36_000).await;
    assert_eq!(log.take(), ["4 #1"]);
    gadget(&lab, "busy", 1).await;
    lab.pass(36_000).await;
    assert_eq!(log.take(), ["1 #1", "1 #2", "1 #3"]);
    lab.patch::<Gadget>("hangs", json!({"spec": {"size": 0}})).await;
    assert_eq!(log.take(), ["0 #1"]);
}

#[tokio::test(start_paused = true)]
async fn one_handlers_failure_is_not_anothers() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, failing(&log).on_create("other", says(&log, "other"))).await;
    gadget(&lab, "g", 1).await;
    lab.pass(25).await;
    assert_eq!(log.take(), ["1 #1", "other", "1 #2"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_gave_up_lets_the_object_go() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new().on_delete(
        "delete",
        move |gadget: Arc<Gadget>, _: HandlerContext<Gadget>| {
            said.say("delete");
            async move {
                if gadget.spec.size == 0 { Err(terminal("no")) } else { Result::<()>::Err("not yet".into()) }
            }
        },
    );
    run(&mut lab, handlers.retries(3)).await;
    gadget(&lab, "hopeless", 0).await;
    lab.delete::<Gadget>("hopeless").await;
    assert_eq!(log.take(), ["delete"]);
    assert!(get(&lab, "hopeless").await.is_none());
    gadget(&lab, "stubborn", 1).await;
    lab.delete::<Gadget>("stubborn").await;
    assert!(get(&lab, "stubborn").await.is_some());
    lab.pass(100).await;
    assert_eq!(log.take().len(), 4);
    assert!(get(&lab, "stubborn").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_server_is_not_logged_by_every_object() {
    let mut lab = lab().await;
    let handlers = Handlers::<Gadget>::new().on_create(
        "create",
        |gadget: Arc<Gadget>, cx: HandlerContext<Gadget>| async move {
            if gadget.spec.size == 1 {
                return Err("odd".into());
            }
            cx.apply(config("child", &[])).await.map(|_| ()).map_err(Into::into)
        },
    );
    let running = run(&mut lab, handlers).await;
    lab.faults
        .set(|request| request.uri().path().contains("configmaps").then_some(InjectedFault::Unreachable));
    gadget(&lab, "cut-off", 0).await;
    lab.pass(5).await;
    let is_failure =
        |entry: &Entry| matches!(entry, Entry::Handled { outcome, .. } if *outcome != HandlerOutcome::Done);
    assert!(running.journal.records().iter().any(|record| is_failure(&record.entry)));
    assert!(!lab.has_logged("handler failed"), "the watches tell of an outage");
    gadget(&lab, "odd", 1).await;
    assert!(lab.has_logged("handler failed"), "its own errors are told");
}
