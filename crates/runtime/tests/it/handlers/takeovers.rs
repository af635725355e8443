//! Replicas that take over: what one has recorded, the next does not repeat, however far its watch is behind.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::{Entry, WriteOutcome};
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::Turn;
use kube::ResourceExt;
use serde_json::json;

use super::{Gadget, gadget, get, lab};
use crate::lab::{Lab, Log, Running, entries_of_any};

const ANNOTATION: &str = "widgets.test.dev/gadget.handled";

/// A replica whose create handler says its name and takes six seconds.
fn replica(lab: &mut Lab, log: &Log, name: &'static str, breakable: bool) -> Running {
    let log = log.clone();
    let handlers = Handlers::<Gadget>::new().on_create("create", move |_: Arc<Gadget>, _: Turn<Gadget>| {
        log.say(name);
        async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok(())
        }
    });
    lab.run_on(breakable, |operator| operator.leader_election().control(handlers))
}

/// The first of two replicas handles an object, records it and stops; the watch of the second is this far behind.
async fn hand_over(behind: Duration, offset: Duration) -> Vec<String> {
    let mut lab = lab().await;
    lab.lag(behind);
    let log = lab.log.clone();
    let first = replica(&mut lab, &log, "first", true);
    lab.pass(30).await;
    let second = replica(&mut lab, &log, "second", false);
    lab.pass(30).await;
    tokio::time::sleep(offset).await;
    gadget(&lab, "g", 1).await;
    tokio::time::sleep(Duration::from_millis(6_200)).await;
    assert!(
        get(&lab, "g").await.unwrap().annotations().contains_key(ANNOTATION),
        "the first has recorded it"
    );
    first.stop.cancel();
    lab.pass(120).await;
    let settled = entries_of_any(&second, "g", |entry| matches!(entry, Entry::Settled { .. }).then_some(()));
    assert!(!settled.is_empty(), "the second has taken it over");
    lab.log.take()
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_up_to_date_repeats_nothing() {
    for offset in 0..12 {
        assert_eq!(hand_over(Duration::ZERO, Duration::from_millis(200 * offset)).await, ["first"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_watch_is_five_seconds_behind_repeats_nothing() {
    assert_eq!(hand_over(Duration::from_secs(5), Duration::ZERO).await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_watch_is_a_second_behind_repeats_nothing() {
    for offset in 0..12 {
        let said = hand_over(Duration::from_secs(1), Duration::from_millis(200 * offset)).await;
        assert_eq!(said, ["first"], "{offset}");
    }
}

/// The record is written only over the one that was read.
#[tokio::test(start_paused = true)]
async fn a_record_that_another_wrote_meanwhile_is_not_written_over() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = replica(&mut lab, &log, "first", true);
    lab.pass(30).await;
    gadget(&lab, "g", 1).await;
    lab.pass(1).await;
    // While the handler runs, somebody who had the right before records that it is through.
    let theirs = json!({"marks": {"create": {"seen": "once"}, "other": {"seen": "once"}}}).to_string();
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: theirs}}})).await;
    lab.pass(30).await;
    assert_eq!(get(&lab, "g").await.unwrap().annotations()[ANNOTATION], theirs);
    assert_eq!(log.take(), ["first"], "and what it says counts");
    let failed = entries_of_any(&running, "g", |entry| match entry {
        Entry::Wrote { outcome: WriteOutcome::Failed { error }, .. } => Some(error),
        _ => None,
    });
    assert!(failed[0].contains("somebody else changed the same field"), "{failed:?}");
}
