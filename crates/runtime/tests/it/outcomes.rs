//! Tests the five outcomes of a reconcile: settled, failed, requeue after, requeue now, and a failure that beats a
//! requeue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use homeostat_runtime::{Action, Result};
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget};

/// Returns the seconds (virtual, whole) at which a widget is reconciled within `seconds`, if the n-th run ends with
/// `outcome(n)`.
async fn times(seconds: u64, outcome: fn(u32) -> Result<Action>) -> Vec<u64> {
    let mut lab = TestCluster::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let log = lab.log.clone();
    let start = tokio::time::Instant::now();
    lab.run_with(move |_, _| {
        log.say(start.elapsed().as_secs().to_string());
        let number = runs.fetch_add(1, Ordering::Relaxed);
        async move { outcome(number) }
    })
    .await;
    lab.widget("w").await;
    lab.pass(seconds).await;
    lab.log.take().into_iter().map(|text| text.parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn settled_waits_for_a_change() {
    assert_eq!(times(3600, |_| Ok(Action::await_change())).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_retried_after_one_two_four_seconds() {
    let times = times(16, |_| Err("broken")?).await;
    assert_eq!(times, [0, 1, 3, 7, 15], "with up to a tenth of jitter on top, cut to whole seconds");
}

#[tokio::test(start_paused = true)]
async fn requeue_comes_back_after_its_time() {
    assert_eq!(times(700, |_| Ok(Action::requeue(Duration::from_secs(300)))).await, [0, 300, 600]);
}

#[tokio::test(start_paused = true)]
async fn requeue_now_comes_back_at_once() {
    let outcome = |number| Ok(if number < 3 { Action::requeue_now() } else { Action::await_change() });
    assert_eq!(times(60, outcome).await, [0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_error_after_a_requeue_follows_the_backoff() {
    // The first run requeues after an hour; an edit causes a second run that fails: the error replaces the hour.
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    lab.run_with(move |widget, _| {
        log.say(widget.spec.size.to_string());
        async move {
            match widget.spec.size {
                0 => Ok(Action::requeue(Duration::from_secs(3600))),
                _ => Err("broken")?,
            }
        }
    })
    .await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.pass(4).await;
    assert_eq!(lab.log.take(), ["0", "1", "1", "1"]);
}
