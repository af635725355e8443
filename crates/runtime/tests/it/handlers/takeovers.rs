//! Tests replicas that take over: the next one does not repeat what the previous one has recorded, however far its
//! watch lags.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Entropy;
use homeostat_core::journal::{Entry, WriteOutcome};
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::{Diff, HandlerContext};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Gadget, GadgetSpec, gadget, get, lab, run, says};
use crate::test_cluster::{Log, Running, TestCluster, entries_of_any};

const ANNOTATION: &str = "widgets.test.dev/gadget.handled";

/// A replica whose create handler logs its name and takes six seconds.
fn replica(lab: &mut TestCluster, log: &Log, name: &'static str, breakable: bool) -> Running {
    let log = log.clone();
    let handlers =
        Handlers::<Gadget>::new().on_create("create", move |_: Arc<Gadget>, _: HandlerContext<Gadget>| {
            log.say(name);
            async {
                tokio::time::sleep(Duration::from_secs(6)).await;
                Ok(())
            }
        });
    lab.run_on(breakable, |operator| operator.leader_election().control(handlers))
}

/// The first of two replicas handles an object, records it and stops; the watch of the second lags by this much.
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

/// The record is written only if it has not changed since it was read.
#[tokio::test(start_paused = true)]
async fn a_record_that_another_wrote_meanwhile_is_not_written_over() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = replica(&mut lab, &log, "first", true);
    lab.pass(30).await;
    gadget(&lab, "g", 1).await;
    lab.pass(1).await;
    // While the handler runs, a replica that had the right before records that it has finished.
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

/// So is a record that is too large for the annotation.
#[tokio::test(start_paused = true)]
async fn a_large_record_that_another_wrote_meanwhile_is_not_written_over() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let slow = {
        let log = log.clone();
        move |_: Diff<Gadget>, _: HandlerContext<Gadget>| {
            log.say("update");
            async {
                tokio::time::sleep(Duration::from_secs(6)).await;
                Ok(())
            }
        }
    };
    let handlers =
        Handlers::<Gadget>::new().on_create("create", says(&log, "create")).on_update("update", slow);
    let running = run(&mut lab, handlers).await;
    let text = Entropy::seeded(1).suffix(100_000);
    lab.create(&Gadget::new("g", GadgetSpec { text, ..GadgetSpec::default() })).await;
    lab.pass(30).await;
    let secrets = lab.names::<Secret>().await;
    assert_eq!((secrets.len(), log.take()), (1, vec!["create".to_owned()]));
    lab.api::<Gadget>()
        .patch("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 7}})))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.take(), ["update"]);
    // While the handler runs, somebody who had the right before writes the Secret but not yet the annotation.
    let theirs = json!({"marks": {"create": {"seen": "once"}}}).to_string();
    let theirs = json!({"stringData": {"record": theirs}, "metadata": {"labels": {"written": "meanwhile"}}});
    lab.api::<Secret>().patch(&secrets[0], &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
    lab.pass(30).await;
    let failed = entries_of_any(&running, "g", |entry| match entry {
        Entry::Wrote { outcome: WriteOutcome::Failed { error }, target, .. } => {
            Some((target.to_string(), error))
        }
        _ => None,
    });
    let (target, error) = failed.first().expect("the write of the Secret fails");
    assert!(
        target.contains("secrets") && error.contains("somebody else changed the same field"),
        "{failed:?}"
    );
    assert_eq!(log.take(), ["update"], "their record, which says nothing of the update, counts");
    let made = lab.names::<Secret>().await;
    assert_eq!(made, secrets);
}
