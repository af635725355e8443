//! Tests field handlers: typed old and new values of any field, including those of the status.

use std::sync::Arc;

use homeostat::testing::InjectedFault;
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::options::HandlerDeclared;
use homeostat_runtime::handlers::{FieldUpdate, HandlerContext};
use serde_json::json;

use super::{Gadget, gadget, get, kill, lab, run};
use crate::test_cluster::{Log, TestCluster};

fn follows_size(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new().on_field(
        "scale",
        |gadget| gadget.spec.size,
        move |size: FieldUpdate<i64>, _: Arc<Gadget>, _: HandlerContext<Gadget>| {
            log.say(format!("{:?} -> {}", size.old, size.new));
            async { Ok(()) }
        },
    )
}

#[tokio::test(start_paused = true)]
async fn old_and_new_value_over_restarts() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, follows_size(&log)).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(log.take(), ["None -> 1"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": "b"}}, "spec": {"text": "t"}})).await;
    assert!(log.take().is_empty(), "another field");
    kill(&lab, &running).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    run(&mut lab, follows_size(&log)).await;
    assert_eq!(log.take(), ["Some(1) -> 2"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 3}})).await;
    assert_eq!(log.take(), ["Some(2) -> 3"]);
}

#[tokio::test(start_paused = true)]
async fn the_differences_within_a_field() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new().on_field(
        "relabel",
        |gadget| gadget.metadata.labels.clone().unwrap_or_default(),
        move |labels, _, _| {
            said.say(labels.changes().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            async { Ok(()) }
        },
    );
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert!(log.take().is_empty(), "there are no labels yet");
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": "1", "b": "2"}}})).await;
    assert_eq!(log.take(), [r#"a: nothing -> "1", b: nothing -> "2""#]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": null, "b": "3"}}})).await;
    assert_eq!(log.take(), [r#"a: "1" -> nothing, b: "2" -> "3""#]);
}

/// Counts the users in the status, as a parent does with its children's reports.
fn counts_users(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new().on_field(
        "count",
        |gadget| gadget.spec.users.clone(),
        move |users: FieldUpdate<Vec<String>>, _: Arc<Gadget>, cx: HandlerContext<Gadget>| {
            log.say(format!("{:?} -> {:?}", users.old, users.new));
            cx.status(|status| status.outside = Some(users.new.len().to_string()));
            async { Ok(()) }
        },
    )
}

/// The field is filled, and the status that the handler then writes is stored, but the response is lost; before the
/// handler is called again, the field is empty again.
async fn empty_again(lab: &mut TestCluster, is_killed: bool) -> (Vec<String>, Option<String>) {
    let log = lab.log.clone();
    let running = run(lab, counts_users(&log)).await;
    gadget(lab, "g", 1).await;
    assert!(log.take().is_empty(), "nobody uses it yet");
    let killer = is_killed.then(|| std::sync::Mutex::new(running.killer()));
    lab.faults.set(move |request| {
        let is_meant = request.uri().path().ends_with("/gadgets/g/status");
        if let Some(killer) = killer.as_ref().filter(|_| is_meant) {
            killer.lock().unwrap().kill();
        }
        is_meant.then_some(InjectedFault::Lost)
    });
    lab.patch::<Gadget>("g", json!({"spec": {"users": ["a"]}})).await;
    lab.faults.clear();
    lab.patch::<Gadget>("g", json!({"spec": {"users": null}})).await;
    if is_killed {
        run(lab, counts_users(&log)).await;
    }
    // This is longer than a request may take.
    lab.pass(300).await;
    (log.take(), get(lab, "g").await.and_then(|gadget| gadget.status?.outside))
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_empty_again_after_a_failure_is_a_change() {
    let mut lab = lab().await;
    let (said, counted) = empty_again(&mut lab, false).await;
    assert_eq!((said, counted), (vec![r#"None -> ["a"]"#.into(), "None -> []".into()], Some("0".into())));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_empty_again_after_a_crash_is_a_change() {
    let mut lab = lab().await;
    let (said, counted) = empty_again(&mut lab, true).await;
    assert_eq!((said, counted), (vec![r#"None -> ["a"]"#.into(), "None -> []".into()], Some("0".into())));
}
