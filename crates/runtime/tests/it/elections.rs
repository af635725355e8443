//! Tests several replicas: one leader at a time, shards that move without overlap, and late writes that are not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::Entry;
use homeostat_runtime::{Action, Controller};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use crate::runs::{count, overlaps, spans};
use crate::test_cluster::{Running, TestCluster, Widget};

/// A replica that takes three seconds per reconcile and repeats it every ten.
fn replica(lab: &mut TestCluster, shards: Option<u32>, breakable: bool) -> Running {
    let control = Controller::<Widget>::new().reconcile(|_, _| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(Action::requeue(Duration::from_secs(10)))
    });
    lab.run_on(breakable, |operator| match shards {
        None => operator.leader_election().control(control),
        Some(count) => operator.sharded(count).control(control),
    })
}

/// Checks that no object is reconciled by two replicas at once.
#[track_caller]
fn assert_no_overlap(one: &Running, two: &Running) {
    assert_eq!(overlaps(one, two), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_takes_over_when_it_is_cut_off() {
    let mut lab = TestCluster::new().await;
    for number in 0..5 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, None, true);
    lab.pass(5).await;
    let second = replica(&mut lab, None, false);
    lab.pass(30).await;
    assert!(count(&first) > 5);
    assert_eq!(count(&second), 0);
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.pass(60).await;
    let before = count(&first);
    assert!(count(&second) > 5, "the second took over");
    lab.pass(30).await;
    assert_eq!(count(&first), before, "the first stopped by itself");
    assert_no_overlap(&first, &second);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_gives_the_lease_back_at_once() {
    let mut lab = TestCluster::new().await;
    lab.widget("w").await;
    let first = replica(&mut lab, None, true);
    lab.pass(20).await;
    let second = replica(&mut lab, None, false);
    lab.pass(5).await;
    first.stop.cancel();
    lab.pass(7).await;
    assert!(count(&second) > 0, "nobody waits for a lease that was given back");
    assert_no_overlap(&first, &second);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leaders_late_write_is_not_sent() {
    let mut lab = TestCluster::new().await;
    let control = Controller::<Widget>::new().owns::<k8s_openapi::api::core::v1::ConfigMap>().reconcile(
        |_, cx| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            cx.apply(crate::test_cluster::config("late", &[])).await?;
            Ok(Action::await_change())
        },
    );
    let running = lab.run_on(true, |operator| operator.leader_election().control(control));
    lab.widget("w").await;
    lab.pass(20).await;
    lab.patch::<Lease>(
        "widgets.test.dev",
        json!({"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 3600}}),
    )
    .await;
    lab.pass(70).await;
    assert!(!lab.names::<k8s_openapi::api::core::v1::ConfigMap>().await.contains(&"late".to_owned()));
    let ends = crate::test_cluster::entries(&running, "w", |entry| match entry {
        Entry::Cancelled { took, .. } => Some(took.as_secs()),
        Entry::Settled { .. } | Entry::Failed { .. } => panic!("it came to an end"),
        _ => None,
    });
    assert!(ends.len() == 1 && ends[0] < 10, "it is cut off at the next look: {ends:?}");
}

#[tokio::test(start_paused = true)]
async fn shards_are_shared_and_move_without_overlap() {
    let mut lab = TestCluster::new().await;
    for number in 0..24 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, Some(8), true);
    lab.pass(30).await;
    assert_eq!(spans(&first.journal.records()).len(), 24, "alone it does everything");
    let second = replica(&mut lab, Some(8), false);
    lab.pass(60).await;
    let (before_first, before_second) = (count(&first), count(&second));
    lab.pass(60).await;
    assert!(count(&first) > before_first && count(&second) > before_second, "both work");
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.pass(120).await;
    let alone = spans(&second.journal.records());
    assert_eq!(alone.len(), 24, "the survivor does everything");
    assert_no_overlap(&first, &second);
}

/// Returns the names of leases and their holders.
async fn holders(lab: &TestCluster) -> BTreeMap<String, String> {
    let all = lab.api::<Lease>().list(&kube::api::ListParams::default()).await.unwrap();
    let named = all.items.into_iter().map(|lease| {
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        (lease.metadata.name.unwrap_or_default(), holder)
    });
    named.collect()
}

/// Returns when the replica last acquired or lost a lease with this name.
fn led(replica: &Running, name: &str) -> Vec<(Timestamp, bool)> {
    let records = replica.journal.records().into_iter();
    let changes = records.filter_map(|record| match record.entry {
        Entry::Led { lease, is_leader } if lease == name => Some((record.at, is_leader)),
        _ => None,
    });
    changes.collect()
}

const LEASE: &str = "widgets.test.dev";

#[tokio::test(start_paused = true)]
async fn a_deleted_or_emptied_lease_never_makes_two_leaders() {
    let mut lab = TestCluster::new().await;
    for number in 0..8 {
        lab.widget(&format!("w{number}")).await;
    }
    let (first, second) = (replica(&mut lab, None, true), replica(&mut lab, None, true));
    lab.pass(40).await;
    for number in 0..12 {
        if number % 3 == 0 {
            lab.patch::<Lease>(LEASE, json!({"spec": {"holderIdentity": null}})).await;
        } else {
            lab.delete::<Lease>(LEASE).await;
        }
        // The test is repeated at different moments between two renewals.
        lab.pass(11 + number % 4).await;
        tokio::time::sleep(Duration::from_millis(170 * number)).await;
    }
    let (one, two) = (count(&first), count(&second));
    assert!(one.max(two) > 8 && one.min(two) == 0, "its holder puts it back: {one} and {two}");
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_that_finds_no_lease_waits_until_an_old_right_has_run_out() {
    let mut lab = TestCluster::new().await;
    for number in 0..8 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, None, true);
    lab.pass(40).await;
    // The holder is disconnected but its right is still valid; the lease is deleted; a new replica starts.
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.delete::<Lease>(LEASE).await;
    let second = replica(&mut lab, None, false);
    lab.pass(60).await;
    assert!(count(&second) > 8, "it leads in the end");
    assert_no_overlap(&first, &second);
    let last = spans(&first.journal.records()).into_values().flatten().map(|(_, end)| end).max().unwrap();
    let (begins, _) = led(&second, LEASE)[0];
    assert!(begins > last, "{begins} is after {last}");
}

#[tokio::test(start_paused = true)]
async fn what_the_first_start_waits_for_is_told_once() {
    for shards in [None, Some(4)] {
        let mut lab = TestCluster::new().await;
        lab.widget("w").await;
        let first = replica(&mut lab, shards, true);
        lab.pass(10).await;
        let words = "found no previous lease";
        assert_eq!((lab.times_logged(words), count(&first)), (1, 0), "{shards:?}");
        assert!(lab.has_logged("wait=15s"));
        lab.pass(30).await;
        assert!(count(&first) > 0);
        first.stop.cancel();
        lab.pass(2).await;
        let second = replica(&mut lab, shards, true);
        lab.pass(10).await;
        assert!(count(&second) > 0, "a lease given back is waited for by nobody");
        assert_eq!(lab.times_logged(words), 1, "{shards:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn holders_are_named_by_host_and_process() {
    let mut lab = TestCluster::new().await;
    let _one = replica(&mut lab, Some(2), true);
    lab.pass(20).await;
    let held = holders(&lab).await.into_iter().filter(|(_, holder)| !holder.is_empty());
    for (lease, holder) in held {
        let [host, process, chance] = holder.split('_').collect::<Vec<_>>()[..] else { panic!("{holder}") };
        assert!(!host.is_empty() && chance.len() == 8, "{holder}");
        assert_eq!(process, std::process::id().to_string());
        assert!(!lease.contains('_'), "{lease}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_that_cannot_be_renewed_are_told_once_and_when_it_is_over() {
    let mut lab = TestCluster::new().await;
    let _leader = replica(&mut lab, None, true);
    lab.pass(20).await;
    lab.faults.set(|request| request.uri().path().contains("/leases").then_some(InjectedFault::Unreachable));
    lab.pass(60).await;
    lab.faults.clear();
    lab.pass(5).await;
    assert_eq!(lab.times_logged("leases not renewed"), 1);
    assert_eq!(lab.times_logged("leases are renewed again"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_ends_before_the_term() {
    let mut lab = TestCluster::new().await;
    for number in 0..8 {
        lab.widget(&format!("w{number}")).await;
    }
    for shards in [None, Some(4)] {
        let running = replica(&mut lab, shards, true);
        lab.pass(40).await;
        let (before, name) = (count(&running), if shards.is_some() { "shard" } else { LEASE });
        // One lease write gets no response, as on a connection that went silent; later ones succeed.
        let hung = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let name = name.to_owned();
        lab.faults.set(move |request| {
            let is_it = request.method() == "PUT" && request.uri().path().contains(&name);
            (is_it && !hung.swap(true, std::sync::atomic::Ordering::Relaxed)).then_some(InjectedFault::Hang)
        });
        lab.pass(60).await;
        assert!(count(&running) > before + 24, "{shards:?}: {} runs", count(&running) - before);
        lab.faults.clear();
        running.stop.cancel();
        lab.pass(30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_middle_of_a_look_loses_no_shard() {
    let mut lab = TestCluster::new().await;
    for number in 0..24 {
        lab.widget(&format!("w{number}")).await;
    }
    // The last shard cannot be written, but the shards gained before it must be listed.
    lab.faults.set(|request| {
        let is_it = request.method() != "GET" && request.uri().path().contains("leases");
        (is_it && request.uri().path().ends_with("shard-3")).then_some(InjectedFault::Refuse(500, "not now"))
    });
    let running = replica(&mut lab, Some(4), true);
    lab.pass(60).await;
    let held = spans(&running.journal.records()).len();
    assert!(held > 12, "the objects of the other shards are reconciled: {held}");
    // A right that lapsed while others continued is listed again when it is renewed.
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(spans(&running.journal.records()).len(), 24);
    lab.faults.set(|request| {
        let is_it = request.method() == "PUT" && request.uri().path().ends_with("shard-1");
        is_it.then_some(InjectedFault::Refuse(500, "not now"))
    });
    lab.pass(60).await;
    lab.faults.clear();
    lab.pass(5).await;
    let before = running.journal.records().len();
    lab.pass(30).await;
    let started =
        running.journal.records().into_iter().skip(before).filter_map(|record| match record.entry {
            Entry::Started { object, .. } => Some(object),
            _ => None,
        });
    assert_eq!(started.collect::<BTreeSet<_>>().len(), 24, "every object runs again");
}

#[tokio::test(start_paused = true)]
async fn a_shard_lease_that_lost_its_label_is_found_by_its_name() {
    let mut lab = TestCluster::new().await;
    for number in 0..24 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, Some(4), true);
    lab.pass(40).await;
    first.kill();
    let label = json!({"metadata": {"labels": {"homeostat.dev/operator": null}}});
    for shard in 0..4 {
        lab.patch::<Lease>(&format!("{LEASE}-shard-{shard}"), label.clone()).await;
    }
    let second = replica(&mut lab, Some(4), false);
    lab.pass(60).await;
    assert_eq!(spans(&second.journal.records()).len(), 24, "no shard stays with the dead");
}

#[tokio::test(start_paused = true)]
async fn the_signs_of_life_of_the_dead_are_removed() {
    let mut lab = TestCluster::new().await;
    let members =
        |holders: BTreeMap<String, String>| holders.keys().filter(|name| name.contains("-member-")).count();
    for _ in 0..3 {
        let dead = replica(&mut lab, Some(4), true);
        lab.pass(20).await;
        dead.kill();
    }
    let _living = replica(&mut lab, Some(4), true);
    lab.pass(120).await;
    assert_eq!(members(holders(&lab).await), 4, "nobody is declared dead in a hurry");
    lab.pass(300).await;
    assert_eq!(members(holders(&lab).await), 1, "only the living one is left");
}
