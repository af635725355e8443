//! Tests which handlers are called when, on creation, update, resumption and deletion, across restarts.

use homeostat_core::journal::Entry;
use homeostat_runtime::{CancellationToken, Controller, Handlers, Operator};
use kube::ResourceExt;
use serde_json::json;

use super::{Gadget, gadget, get, kill, lab, run, says, says_changes};
use crate::test_cluster::Log;

fn handlers(log: &Log) -> Handlers<Gadget, homeostat_runtime::handlers::options::HandlerDeclared> {
    Handlers::<Gadget>::new()
        .on_create("create", says(log, "create"))
        .on_update("update", says_changes(log, "update"))
        .on_delete("delete", says(log, "delete"))
}

#[tokio::test(start_paused = true)]
async fn each_is_called_once_for_what_happened() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, handlers(&log)).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(lab.log.take(), ["create"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}, "metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(lab.log.take(), [r#"update metadata: nothing -> {"labels":{"a":"b"}}, spec.size: 1 -> 2"#]);
    lab.patch::<Gadget>("g", json!({"status": {"outside": "x"}})).await;
    let version = lab.version::<Gadget>("g").await;
    lab.pass(36_000).await;
    assert!(lab.log.take().is_empty());
    assert_eq!(lab.version::<Gadget>("g").await, version, "at rest nothing is written");
    lab.delete::<Gadget>("g").await;
    assert_eq!(lab.log.take(), ["delete"]);
    assert!(get(&lab, "g").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_nothing_and_misses_nothing() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let first = run(&mut lab, handlers(&log)).await;
    gadget(&lab, "same", 1).await;
    gadget(&lab, "edited", 1).await;
    gadget(&lab, "deleted", 1).await;
    log.take();
    kill(&lab, &first).await;
    lab.patch::<Gadget>("edited", json!({"spec": {"size": 2}})).await;
    lab.patch::<Gadget>("edited", json!({"spec": {"size": 3}})).await;
    lab.delete::<Gadget>("deleted").await;
    gadget(&lab, "new", 1).await;
    run(&mut lab, handlers(&log)).await;
    let mut said = log.take();
    said.sort();
    assert_eq!(said, ["create", "delete", "update spec.size: 1 -> 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_added_to_the_program_runs_once_for_what_exists() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let first = run(&mut lab, handlers(&log)).await;
    gadget(&lab, "g", 1).await;
    log.take();
    kill(&lab, &first).await;
    let more = |log: &Log| {
        let said = log.clone();
        handlers(log)
            .on_create("second", says(log, "second"))
            .on_update("third", says_changes(log, "third"))
            .on_field(
                "fourth",
                |gadget| gadget.spec.size,
                move |size, _, _| {
                    said.say(format!("fourth {:?} -> {}", size.old, size.new));
                    async { Ok(()) }
                },
            )
    };
    let second = run(&mut lab, more(&log)).await;
    let added = ["second", r#"third spec: nothing -> {"size":1}"#, "fourth None -> 1"];
    assert_eq!(log.take(), added, "and only they");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert_eq!(log.take(), ["update spec.size: 1 -> 2", "third spec.size: 1 -> 2", "fourth Some(1) -> 2"]);
    kill(&lab, &second).await;
    run(&mut lab, more(&log)).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn edits_while_an_update_fails_are_one_difference_since_the_last_success() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let fussy = |log: &Log| {
        let log = log.clone();
        Handlers::<Gadget>::new()
            .on_create("create", says(&log, "create"))
            .on_update("other", says_changes(&log, "other"))
            .on_update("update", move |diff, _| {
                log.say(format!("update {}", diff.changes[0]));
                async move { if diff.new.spec.size < 4 { Err("not this")? } else { Ok(()) } }
            })
    };
    let running = run(&mut lab, fussy(&log)).await;
    gadget(&lab, "g", 1).await;
    log.take();
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert_eq!(log.take(), ["other spec.size: 1 -> 2", "update spec.size: 1 -> 2"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 3}})).await;
    assert_eq!(log.take(), ["other spec.size: 2 -> 3", "update spec.size: 1 -> 3"]);
    kill(&lab, &running).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 4}})).await;
    run(&mut lab, fussy(&log)).await;
    assert_eq!(log.take(), ["other spec.size: 3 -> 4", "update spec.size: 1 -> 4"], "over a restart, too");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_only_updates_concern_starts_from_its_first_state() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let only = |log: &Log| Handlers::<Gadget>::new().on_update("update", says_changes(log, "update"));
    let running = run(&mut lab, only(&log)).await;
    gadget(&lab, "g", 1).await;
    assert!(log.take().is_empty(), "it was not updated");
    kill(&lab, &running).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    run(&mut lab, only(&log)).await;
    assert_eq!(log.take(), ["update spec.size: 1 -> 2"]);
}

#[tokio::test(start_paused = true)]
async fn resumed_once_for_each_process() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let with_resume = |log: &Log| handlers(log).on_resume("resume", says(log, "resume"));
    let first = run(&mut lab, with_resume(&log)).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(log.take(), ["create"], "it was created, not resumed");
    kill(&lab, &first).await;
    run(&mut lab, with_resume(&log)).await;
    assert_eq!(log.take(), ["resume"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert_eq!(log.take(), ["update spec.size: 1 -> 2"]);
}

#[tokio::test(start_paused = true)]
async fn handlers_complete_a_controller() {
    let mut lab = lab().await;
    let control =
        Controller::<Gadget>::new().named("custom").labels("watched").handlers(handlers(&lab.log.clone()));
    lab.run(|operator| operator.control(control));
    lab.rest().await;
    let mut object = Gadget::new("g", super::GadgetSpec::default());
    gadget(&lab, "unlabelled", 1).await;
    object.labels_mut().insert("watched".into(), String::new());
    lab.create(&object).await;
    assert_eq!(lab.log.take(), ["create"]);
    assert_eq!(get(&lab, "g").await.unwrap().finalizers(), ["widgets.test.dev/custom"]);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused() {
    let lab = lab().await;
    let operator = Operator::new("o").control(handlers(&lab.log)).control(handlers(&lab.log));
    let refused = operator.run_on(lab.client.clone(), CancellationToken::new()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "two controllers are named gadget: rename one of them with Controller::named"
    );
}

#[tokio::test(start_paused = true)]
async fn one_with_very_many_handlers_gives_others_a_turn_and_is_through_with_all() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let mut handlers = Handlers::<Gadget>::new().on_create("h0", says(&log, "0"));
    for number in 1..250 {
        handlers = handlers.on_create(format!("h{number}"), says(&log, &number.to_string()));
    }
    let running = run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    lab.pass(1).await;
    let said = log.take();
    assert_eq!(said, (0..250).map(|number| number.to_string()).collect::<Vec<_>>(), "each once");
    let starts = running.journal.records().into_iter();
    let starts = starts.filter(|record| matches!(record.entry, Entry::Started { .. })).count();
    assert!(starts >= 3, "in {starts} turns, a hundred steps each");
}
