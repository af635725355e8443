//! Tests what people see of failing handlers: events on the object, and the condition `Handled` in its status.

use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_runtime::{Backoff, Handlers, terminal};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use super::errors::failing;
use super::{Gadget, Made, gadget, get, kill, lab, run, says, says_changes};
use crate::test_cluster::{Running, TestCluster};

/// Returns the warnings on objects, oldest first: `reason: message`.
async fn warnings(lab: &TestCluster) -> Vec<String> {
    let events = lab.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let warnings = events.into_iter().filter(|event| event.type_.as_deref() == Some("Warning"));
    let mut told: Vec<_> = warnings
        .map(|event| {
            let words =
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            (event.first_timestamp, words)
        })
        .collect();
    told.sort_by(|one, other| one.0.as_ref().map(|time| time.0).cmp(&other.0.as_ref().map(|time| time.0)));
    told.into_iter().map(|(_, words)| words).collect()
}

/// Returns status, reason and message of the condition `Handled`; empty if there is none.
async fn handled(lab: &TestCluster, name: &str) -> [String; 3] {
    let status = get(lab, name).await.unwrap().status.unwrap_or_default();
    let found = status.base.conditions.into_iter().find(|one| one.type_ == "Handled");
    found.map(|found| [found.status, found.reason, found.message]).unwrap_or_default()
}

/// Checks the same as `kubectl wait --for=condition=Handled`: whether the condition is true and about the current
/// generation.
async fn is_handled(lab: &TestCluster, name: &str) -> bool {
    let gadget = get(lab, name).await.unwrap();
    let generation = gadget.metadata.generation;
    let conditions = gadget.status.unwrap_or_default().base.conditions;
    let is_it = |one: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| one.type_ == "Handled";
    conditions
        .iter()
        .find(is_it)
        .is_some_and(|one| one.status == "True" && one.observed_generation == generation)
}

/// Returns the writes sent so far, in order.
fn writes(running: &Running) -> Vec<Verb> {
    let records = running.journal.records().into_iter();
    let sent = records.filter_map(|record| match record.entry {
        Entry::Wrote { verb, outcome: WriteOutcome::Done { .. }, .. } => Some(verb),
        _ => None,
    });
    sent.collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_handled_to_the_end_says_so_in_the_write_of_the_last_result() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = || {
        Handlers::<Gadget>::new()
            .on_create("first", says(&log, "first"))
            .on_create("create", |_, _| async { Ok(Made { name: "made".to_owned() }) })
            .on_update("update", |diff: homeostat_runtime::handlers::Diff<Gadget>, cx| async move {
                cx.status(|status| status.outside = Some(diff.new.spec.size.to_string()));
                Ok(())
            })
    };
    let running = run(&mut lab, handlers()).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(handled(&lab, "g").await, ["True", "Succeeded", ""]);
    assert_eq!(writes(&running), [Verb::Patch, Verb::Status, Verb::Patch], "no request of its own");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert!(is_handled(&lab, "g").await, "of the new generation");
    assert_eq!(writes(&running)[3..], [Verb::Status, Verb::Patch]);
    kill(&lab, &running).await;
    let running = run(&mut lab, handlers()).await;
    lab.pass(3600).await;
    assert!(writes(&running).is_empty(), "over restarts, too");
}

#[tokio::test(start_paused = true)]
async fn handlers_that_store_nothing_say_so_once_for_each_generation() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new()
        .on_create("create", says(&log, "create"))
        .on_update("update", says_changes(&log, "update"));
    let running = run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert!(is_handled(&lab, "g").await);
    assert_eq!(writes(&running), [Verb::Patch, Verb::Status]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert!(is_handled(&lab, "g").await);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": "b"}}})).await;
    lab.pass(3600).await;
    assert_eq!(
        writes(&running)[2..],
        [Verb::Patch, Verb::Status, Verb::Patch],
        "a label is no generation, and nothing is written at rest"
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_whose_write_failed_is_written_again() {
    for fault in [InjectedFault::Unreachable, InjectedFault::Lost, InjectedFault::Refuse(500, "no")] {
        let mut lab = lab().await;
        let log = lab.log.clone();
        let handlers = Handlers::<Gadget>::new().on_create("create", says(&log, "create"));
        run(&mut lab, handlers).await;
        lab.faults.set(move |request| request.uri().path().ends_with("/gadgets/g/status").then_some(fault));
        gadget(&lab, "g", 1).await;
        lab.faults.clear();
        lab.pass(60).await;
        assert!(is_handled(&lab, "g").await, "{fault:?}");
        assert_eq!(log.take(), ["create"], "{fault:?}: only the status was missing");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_handled_before_all_is_through() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = failing(&log).on_create("other", |_, _| async { Ok(Made { name: "made".to_owned() }) });
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 3).await;
    lab.pass(15).await;
    assert_eq!(handled(&lab, "g").await, ["", "", ""], "one of them fails, and may yet succeed");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    assert!(is_handled(&lab, "g").await);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_handlers_is_not_called_handled() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new()
        .on_create("create", says(&log, "create"))
        .when(|gadget: &Gadget| gadget.spec.size > 5)
        .every("poll", Duration::from_secs(3600), says(&log, "poll"));
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    lab.pass(36_000).await;
    assert_eq!(handled(&lab, "g").await, ["", "", ""], "only a timer looks at it");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 6}})).await;
    assert!(is_handled(&lab, "g").await);
}

#[tokio::test(start_paused = true)]
async fn each_failure_leaves_an_event_with_attempt_and_next_try() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, failing(&log).retries(2)).await;
    gadget(&lab, "g", 3).await;
    lab.pass(29).await;
    assert_eq!(
        warnings(&lab).await,
        [
            "HandlerFailed: create: broken (attempt 1; next try in 10 s)",
            "HandlerFailed: create: broken (attempt 2; next try in 20 s)"
        ]
    );
    assert_eq!(handled(&lab, "g").await, ["", "", ""], "a blip is no state");
    lab.pass(10).await;
    assert_eq!(
        warnings(&lab).await[2..],
        ["HandlerGaveUp: create: broken (attempt 3; no further try until the object is edited)"]
    );
    assert_eq!(handled(&lab, "g").await, ["False", "GaveUp", "create: broken"]);
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_of_a_handler_that_gave_up_until_an_edit_cures_it() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = || failing(&log).on_create("other", says(&log, "other"));
    let running = run(&mut lab, handlers()).await;
    gadget(&lab, "g", 2).await;
    assert_eq!(handled(&lab, "g").await, ["False", "GaveUp", "create: never"]);
    let version = lab.version::<Gadget>("g").await;
    kill(&lab, &running).await;
    run(&mut lab, handlers()).await;
    lab.pass(36_000).await;
    assert_eq!(lab.version::<Gadget>("g").await, version, "it is told once, over restarts");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    assert_eq!(handled(&lab, "g").await, ["True", "Succeeded", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_is_told_and_taken_back() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, failing(&log)).await;
    gadget(&lab, "g", 3).await;
    lab.pass(31).await;
    assert_eq!(handled(&lab, "g").await, ["False", "Failing", "create: broken"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert_eq!(handled(&lab, "g").await, ["False", "GaveUp", "create: never"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    assert_eq!(handled(&lab, "g").await, ["True", "Succeeded", ""]);
}

#[tokio::test(start_paused = true)]
async fn parts_are_told_of_by_their_own_names() {
    let mut lab = lab().await;
    let handlers = Handlers::<Gadget>::new()
        .on_create("create", |_, cx| async move {
            cx.sub("one", |_| async { homeostat_runtime::Result::<()>::Err("broken".into()) });
            Ok(())
        })
        .backoff(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(60)).jitter(0.0));
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(warnings(&lab).await, ["HandlerFailed: create/one: broken (attempt 1; next try in 10 s)"]);
    lab.pass(31).await;
    assert_eq!(handled(&lab, "g").await, ["False", "Failing", "create/one: broken"]);
}

#[tokio::test(start_paused = true)]
async fn so_are_daemons_timers_and_listeners() {
    let mut lab = lab().await;
    let handlers = Handlers::<Gadget>::new()
        .daemon("watch", |gadget, _| async move {
            if gadget.spec.size == 0 { Err(terminal("no size")) } else { Err("broken")? }
        })
        .restart(Backoff::exponential(Duration::from_secs(100), Duration::from_secs(600)).jitter(0.0))
        .every("poll", Duration::from_secs(3600), |_, _| async { Err(terminal("no answer")) })
        .on_event("count", |_, _| async { Err("cannot count")? });
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    let told = warnings(&lab).await;
    for expected in [
        "HandlerFailed: watch: broken (attempt 1; next try in 100 s)",
        "HandlerGaveUp: poll: no answer (attempt 1; no further try until the object is edited)",
        "HandlerFailed: count: cannot count (not tried again)",
    ] {
        assert!(told.iter().any(|words| words == expected), "{expected} is not in {told:?}");
    }
    assert_eq!(handled(&lab, "g").await, ["False", "GaveUp", "poll: no answer"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    lab.pass(200).await;
    assert_eq!(handled(&lab, "g").await, ["False", "GaveUp", "poll: no answer; watch: no size"]);
}
