//! Tests what a replica does when its right passes to another: it stops before the other begins, whatever it is running
//! or about to send; and a rollout that changes the number of shards never gives a key to two replicas.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Cause, Entry, Verb, WriteOutcome};
use homeostat_runtime::{Action, Controller};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::runs::{count, overlaps};
use crate::test_cluster::{Running, TestCluster, Widget, config, entries};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A replica whose reconciles take this long and repeat every ten seconds.
fn replica(lab: &mut TestCluster, shards: Option<u32>, breakable: bool, takes: u64) -> Running {
    let control = Controller::<Widget>::new().reconcile(move |_, _| async move {
        tokio::time::sleep(seconds(takes)).await;
        Ok(Action::requeue(seconds(10)))
    });
    lab.run_on(breakable, |operator| match shards {
        None => operator.leader_election().control(control),
        Some(count) => operator.sharded(count).control(control),
    })
}

async fn with_widgets(count: u32) -> TestCluster {
    let lab = TestCluster::new().await;
    for number in 0..count {
        lab.widget(&format!("w{number}")).await;
    }
    lab
}

fn was_cancelled(running: &Running) -> bool {
    running.journal.records().iter().any(|record| matches!(record.entry, Entry::Cancelled { .. }))
}

/// Each time, a second replica joins at a different moment of the first one's cycle.
async fn check_shards_move_without_overlap(takes: u64) {
    for offset in (0..18).step_by(2) {
        let mut lab = with_widgets(24).await;
        let first = replica(&mut lab, Some(8), true, takes);
        lab.pass(45 + offset).await;
        let second = replica(&mut lab, Some(8), false, takes);
        lab.pass(120).await;
        assert_eq!(overlaps(&first, &second), [""; 0], "joined at {offset} s");
        assert!(count(&second) > 0, "joined at {offset} s");
    }
}

#[tokio::test(start_paused = true)]
async fn shards_with_short_reconciles_move_without_overlap() {
    check_shards_move_without_overlap(3).await;
}

#[tokio::test(start_paused = true)]
async fn shards_with_reconciles_of_half_a_term_move_without_overlap() {
    check_shards_move_without_overlap(8).await;
}

#[tokio::test(start_paused = true)]
async fn shards_with_reconciles_longer_than_a_term_move_without_overlap() {
    check_shards_move_without_overlap(20).await;
}

#[tokio::test(start_paused = true)]
async fn shards_with_reconciles_longer_than_the_grace_are_cut_off_and_move() {
    let mut lab = with_widgets(24).await;
    let first = replica(&mut lab, Some(8), true, 300);
    lab.pass(45).await;
    let second = replica(&mut lab, Some(8), false, 300);
    lab.pass(20).await;
    assert_eq!(count(&second), 0, "what runs may end within the grace");
    lab.pass(40).await;
    assert!(count(&second) > 0 && was_cancelled(&first));
    assert_eq!(overlaps(&first, &second), [""; 0]);
}

/// Each time, a leader is disconnected from its lease at a different moment.
async fn check_leaders_do_not_overlap(takes: u64) {
    for offset in (0..18).step_by(3) {
        let mut lab = with_widgets(4).await;
        let first = replica(&mut lab, None, true, takes);
        lab.pass(40).await;
        let second = replica(&mut lab, None, false, takes);
        lab.pass(20 + offset).await;
        lab.faults
            .set(|request| request.uri().path().contains("/leases").then_some(InjectedFault::Unreachable));
        lab.pass(120).await;
        assert_eq!(overlaps(&first, &second), [""; 0], "cut off at {offset} s");
        assert!(count(&second) > 0, "cut off at {offset} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_does_not_overlap_with_the_next() {
    for takes in [3, 8, 20] {
        check_leaders_do_not_overlap(takes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_off_runs_again_where_the_right_went() {
    let mut lab = with_widgets(1).await;
    let first = replica(&mut lab, None, true, 60);
    lab.pass(20).await;
    lab.faults.set(|request| request.uri().path().contains("/leases").then_some(InjectedFault::Unreachable));
    lab.pass(20).await;
    assert!(was_cancelled(&first));
    assert!(lab.has_logged("reconcile cut off"));
    lab.faults.clear();
    lab.pass(20).await;
    let causes = entries(&first, "w0", |entry| match entry {
        Entry::Started { causes, .. } => Some(causes),
        _ => None,
    });
    assert_eq!(causes, [vec![Cause::Listed], vec![Cause::Interrupted]]);
}

#[tokio::test(start_paused = true)]
async fn whatever_a_deposed_leader_still_sends_is_refused() {
    let mut lab = TestCluster::new().await;
    let (is_later, log) = (Arc::<AtomicBool>::default(), lab.log.clone());
    let control = Controller::<Widget>::new().owns::<ConfigMap>().reconcile(move |_, cx| {
        let (is_later, log) = (is_later.swap(true, Ordering::Relaxed), log.clone());
        async move {
            if is_later {
                return Ok(Action::await_change());
            }
            let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), "default");
            // A task that outlives the run that started it.
            tokio::spawn(async move {
                tokio::time::sleep(seconds(60)).await;
                let reads = api.get_opt("late").await.is_ok();
                let written = api.create(&PostParams::default(), &config("late", &[])).await;
                log.say(format!("reads {reads}, {}", written.unwrap_err()));
                let applied = cx.apply(config("later", &[])).await;
                log.say(applied.unwrap_err().to_string());
                let patched = cx.patch(&config("old", &[]), json!({"data": {"a": "b"}})).await;
                log.say(patched.unwrap_err().to_string());
                let deleted = cx.delete(&config("old", &[])).await;
                log.say(deleted.unwrap_err().to_string());
            });
            std::future::pending().await
        }
    });
    let running = lab.run_on(true, |operator| operator.leader_election().control(control));
    lab.widget("w").await;
    lab.pass(20).await;
    // It loses the lease, and acquires another one long before the task writes.
    lab.faults.set(|request| request.uri().path().contains("/leases").then_some(InjectedFault::Unreachable));
    lab.pass(20).await;
    assert!(was_cancelled(&running));
    lab.faults.clear();
    lab.pass(60).await;
    let said = lab.log.take();
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].starts_with("reads true, ") && said[0].contains("no longer holds its lease"), "{said:?}");
    assert!(said[1].contains("configmaps/default/later was not written"), "{said:?}");
    assert!(said[2..].iter().all(|one| one.contains("configmaps/default/old was not written")), "{said:?}");
    let fenced = entries(&running, "w", |entry| match entry {
        Entry::Wrote { verb, target, outcome: WriteOutcome::Fenced, .. } => {
            Some((verb, target.name().to_owned()))
        }
        _ => None,
    });
    let expected = [(Verb::Apply, "later"), (Verb::Patch, "old"), (Verb::Delete, "old")];
    assert_eq!(
        fenced,
        expected.map(|(verb, name)| (verb, name.to_owned())),
        "the journal tells what was refused"
    );
    let names = lab.names::<ConfigMap>().await;
    assert!(!names.iter().any(|name| name.starts_with("late")), "{names:?}");
}

/// Returns the widgets that a replica has begun to reconcile after this many records.
fn started(running: &Running, since: usize) -> BTreeSet<String> {
    let records = running.journal.records().into_iter().skip(since);
    let names = records.filter_map(|record| match record.entry {
        Entry::Started { object, .. } => Some(object.name().to_owned()),
        _ => None,
    });
    names.collect()
}

/// Checks that within a minute exactly one of the replicas reconciles each of the widgets.
async fn assert_each_in_one(lab: &TestCluster, replicas: &[&Running], widgets: usize, when: &str) {
    let before: Vec<usize> = replicas.iter().map(|running| running.journal.records().len()).collect();
    lab.pass(60).await;
    let sets = replicas.iter().zip(before).map(|(running, since)| started(running, since));
    let sets: Vec<BTreeSet<String>> = sets.collect();
    let all: BTreeSet<&String> = sets.iter().flatten().collect();
    let counts: Vec<usize> = sets.iter().map(BTreeSet::len).collect();
    assert_eq!((all.len(), counts.iter().sum::<usize>()), (widgets, widgets), "{when}: {counts:?}");
}

#[tokio::test(start_paused = true)]
async fn replicas_with_different_numbers_of_shards_deal_each_key_to_one() {
    let mut lab = with_widgets(48).await;
    let first = replica(&mut lab, Some(4), true, 1);
    lab.pass(60).await;
    let second = replica(&mut lab, Some(7), false, 1);
    lab.pass(120).await;
    assert_each_in_one(&lab, &[&first, &second], 48, "both").await;
    assert!(count(&second) > 0, "the newcomer goes by the number that is in force");
    assert_eq!(overlaps(&first, &second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_changes_the_number_of_shards_gives_no_key_to_two() {
    for (before, after) in [(4, 7), (7, 4)] {
        let mut lab = with_widgets(48).await;
        let old = [replica(&mut lab, Some(before), true, 8), replica(&mut lab, Some(before), true, 8)];
        lab.pass(60).await;
        let mut new = Vec::new();
        for gone in &old {
            new.push(replica(&mut lab, Some(after), false, 8));
            lab.pass(23).await;
            gone.stop.cancel();
            lab.pass(31).await;
        }
        lab.pass(120).await;
        assert_each_in_one(&lab, &[&new[0], &new[1]], 48, "after the rollout").await;
        let agreed = lab.api::<Lease>().get("widgets.test.dev-shards").await.unwrap();
        let annotations = agreed.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations["homeostat.dev/shards"], after.to_string());
        let all: Vec<&Running> = old.iter().chain(&new).collect();
        for (at, one) in all.iter().enumerate() {
            for two in &all[at + 1..] {
                assert_eq!(overlaps(one, two), [""; 0], "{before} to {after}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tampering_with_the_number_of_shards_gives_no_key_to_two() {
    let mut lab = with_widgets(48).await;
    let first = replica(&mut lab, Some(4), true, 8);
    lab.pass(60).await;
    let second = replica(&mut lab, Some(7), false, 8);
    lab.pass(60).await;
    let name = "widgets.test.dev-shards";
    for round in 0..6_u64 {
        match round % 3 {
            0 => lab.delete::<Lease>(name).await,
            1 => {
                let nonsense = json!({"metadata": {"annotations": {"homeostat.dev/shards": "many"}}});
                lab.patch::<Lease>(name, nonsense).await;
            }
            _ => {
                let other = json!({"metadata": {"annotations": {"homeostat.dev/shards": "5"}}});
                lab.patch::<Lease>(name, other).await;
            }
        }
        lab.pass(37 + round).await;
    }
    assert_eq!(overlaps(&first, &second), [""; 0]);
    lab.pass(60).await;
    assert_each_in_one(&lab, &[&first, &second], 48, "after it").await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_on_after_a_lapsed_lease() {
    for shards in [None, Some(4)] {
        let mut lab = with_widgets(1).await;
        let control = Controller::<Widget>::new().reconcile(|_, _| async { Err("never".into()) });
        let running = lab.run_on(true, |operator| match shards {
            None => operator.leader_election().control(control),
            Some(count) => operator.sharded(count).control(control),
        });
        lab.pass(60).await;
        let failures = || {
            entries(&running, "w0", |entry| match entry {
                Entry::Failed { failures, .. } => Some(failures),
                _ => None,
            })
        };
        let before = failures().len();
        assert!(before > 3, "{shards:?}");
        lab.faults
            .set(|request| request.uri().path().contains("/leases").then_some(InjectedFault::Unreachable));
        lab.pass(200).await;
        assert_eq!(
            failures().len(),
            before + usize::from(failures().len() > before),
            "{shards:?}: it comes due"
        );
        lab.faults.clear();
        lab.pass(30).await;
        let counted: Vec<u32> = failures();
        let expected: Vec<u32> = (1..).take(counted.len()).collect();
        assert!(counted.len() > before, "{shards:?}: it is tried again");
        assert_eq!(counted, expected, "{shards:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_gained_queues_its_own_objects_only() {
    let mut lab = with_widgets(48).await;
    let first = replica(&mut lab, Some(8), true, 1);
    lab.pass(60).await;
    let second = replica(&mut lab, Some(8), false, 1);
    lab.pass(60).await;
    let before = second.journal.records().len();
    first.stop.cancel();
    lab.pass(30).await;
    let listed = second
        .journal
        .records()
        .into_iter()
        .skip(before)
        .filter(|record| matches!(record.entry, Entry::Queued { cause: Cause::Listed, .. }));
    let listed = listed.count();
    let others = 48 - started(&second, 0).len().min(48);
    assert!(others == 0 && (1..48).contains(&listed), "{listed} of 48 queued, {others} never run");
}
