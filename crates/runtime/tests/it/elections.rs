//! Several replicas: one leader at a time, shards that move without overlap, late writes that are not sent.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record};
use homeostat_runtime::{Action, Controller};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use crate::lab::{Lab, Running, Widget};
use crate::wire::Breakage;

/// A replica that takes three seconds per reconcile and does it again every ten.
fn replica(lab: &mut Lab, shards: Option<u32>, breakable: bool) -> Running {
    let control = Controller::<Widget>::new().reconcile(|_, _| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(Action::requeue(Duration::from_secs(10)))
    });
    lab.run_on(breakable, |operator| match shards {
        None => operator.leader_election().control(control),
        Some(count) => operator.sharded(count).control(control),
    })
}

/// The times between start and end of each reconcile, by object.
fn spans(records: &[Record]) -> BTreeMap<Key, Vec<(Timestamp, Timestamp)>> {
    let mut open = BTreeMap::new();
    let mut spans: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for record in records {
        match &record.entry {
            Entry::Started { object, .. } => drop(open.insert(object.clone(), record.at)),
            Entry::Settled { object, .. } | Entry::Failed { object, .. } => {
                let start = open.remove(object).expect("it was started");
                spans.entry(object.clone()).or_default().push((start, record.at));
            }
            _ => {}
        }
    }
    spans
}

/// No object is reconciled by two replicas at once.
fn assert_no_overlap(one: &Running, two: &Running) {
    let (one, two) = (spans(&one.journal.records()), spans(&two.journal.records()));
    for (object, ours) in &one {
        for (start, end) in ours {
            let overlap =
                two.get(object).into_iter().flatten().find(|(begin, close)| begin < end && start < close);
            assert_eq!(overlap, None, "{object} was reconciled twice between {start} and {end}");
        }
    }
}

fn runs(replica: &Running) -> usize {
    spans(&replica.journal.records()).values().map(Vec::len).sum()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_takes_over_when_it_is_cut_off() {
    let mut lab = Lab::new().await;
    for number in 0..5 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, None, true);
    lab.pass(5).await;
    let second = replica(&mut lab, None, false);
    lab.pass(30).await;
    assert!(runs(&first) > 5);
    assert_eq!(runs(&second), 0);
    lab.faults.set(|_| Some(Breakage::Unreachable));
    lab.faults.cut();
    lab.pass(60).await;
    let before = runs(&first);
    assert!(runs(&second) > 5, "the second took over");
    lab.pass(30).await;
    assert_eq!(runs(&first), before, "the first stopped by itself");
    assert_no_overlap(&first, &second);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_gives_the_lease_back_at_once() {
    let mut lab = Lab::new().await;
    lab.widget("w").await;
    let first = replica(&mut lab, None, true);
    lab.pass(5).await;
    let second = replica(&mut lab, None, false);
    lab.pass(5).await;
    first.stop.cancel();
    lab.pass(7).await;
    assert!(runs(&second) > 0, "nobody waits for a lease that was given back");
    assert_no_overlap(&first, &second);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_makes_no_second_leader() {
    let mut lab = Lab::new().await;
    lab.widget("w").await;
    let first = replica(&mut lab, None, true);
    lab.pass(5).await;
    let second = replica(&mut lab, None, false);
    lab.pass(5).await;
    for _ in 0..10 {
        let name = lab.names::<Lease>().await.pop().expect("the leader's lease");
        lab.delete::<Lease>(&name).await;
        lab.pass(7).await;
    }
    assert!(runs(&first) > 5);
    assert_eq!(runs(&second), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leaders_late_write_is_not_sent() {
    let mut lab = Lab::new().await;
    let control = Controller::<Widget>::new().owns::<k8s_openapi::api::core::v1::ConfigMap>().reconcile(
        |_, cx| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            cx.apply(crate::lab::config("late", &[])).await?;
            Ok(Action::await_change())
        },
    );
    let running = lab.run_on(true, |operator| operator.leader_election().control(control));
    lab.widget("w").await;
    lab.pass(5).await;
    lab.patch::<Lease>(
        "widgets.test.dev",
        json!({"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 3600}}),
    )
    .await;
    lab.pass(70).await;
    assert!(!lab.names::<k8s_openapi::api::core::v1::ConfigMap>().await.contains(&"late".to_owned()));
    let errors = crate::lab::entries(&running, "w", |entry| match entry {
        Entry::Failed { error, .. } => Some(error),
        _ => None,
    });
    assert!(errors[0].contains("no longer holds its lease"), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn shards_are_shared_and_move_without_overlap() {
    let mut lab = Lab::new().await;
    for number in 0..24 {
        lab.widget(&format!("w{number}")).await;
    }
    let first = replica(&mut lab, Some(8), true);
    lab.pass(20).await;
    assert_eq!(spans(&first.journal.records()).len(), 24, "alone it does everything");
    let second = replica(&mut lab, Some(8), false);
    lab.pass(60).await;
    let (before_first, before_second) = (runs(&first), runs(&second));
    lab.pass(60).await;
    assert!(runs(&first) > before_first && runs(&second) > before_second, "both work");
    lab.faults.set(|_| Some(Breakage::Unreachable));
    lab.faults.cut();
    lab.pass(120).await;
    let alone = spans(&second.journal.records());
    assert_eq!(alone.len(), 24, "the survivor does everything");
    assert_no_overlap(&first, &second);
}
