//! Tests stopping: current runs may finish within the grace period, the others are cancelled, and nothing new starts.

use std::time::Duration;

use homeostat_core::journal::Entry;
use homeostat_runtime::{Action, Controller};

use crate::test_cluster::{Running, TestCluster, Widget, entries};

/// An operator that takes `seconds` per widget, one at a time, with a grace period of five seconds.
async fn run(lab: &mut TestCluster, seconds: u64) -> Running {
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().concurrency(1).reconcile(move |widget, _| {
        let log = log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            log.say(widget.metadata.name.clone().unwrap_or_default());
            Ok(Action::await_change())
        }
    });
    let running = lab.run(|operator| operator.control(control).grace(Duration::from_secs(5)));
    lab.rest().await;
    for name in ["first", "second"] {
        lab.widget(name).await;
    }
    running
}

fn starts(running: &Running, name: &str) -> usize {
    entries(running, name, |entry| matches!(entry, Entry::Started { .. }).then_some(())).len()
}

#[tokio::test(start_paused = true)]
async fn a_running_reconcile_ends_and_no_other_begins() {
    let mut lab = TestCluster::new().await;
    let running = run(&mut lab, 3).await;
    running.stop.cancel();
    lab.pass(30).await;
    assert_eq!(lab.log.take(), ["first"]);
    assert_eq!((starts(&running, "first"), starts(&running, "second")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_grace_is_cut_off() {
    let mut lab = TestCluster::new().await;
    let running = run(&mut lab, 60).await;
    running.stop.cancel();
    lab.pass(120).await;
    assert!(lab.log.take().is_empty());
    assert_eq!((starts(&running, "first"), starts(&running, "second")), (1, 0));
}
