//! Tests timers: interval, sharp, idle, initial delay, and the phase across restarts.

use std::time::Duration;

use homeostat_runtime::handlers::options::TimerDeclared;

use homeostat_runtime::{Controller, Handlers, retry_after, terminal};
use serde_json::json;

use super::{Gadget, gadget, get, kill, lab, run};
use crate::test_cluster::{Log, TestCluster};

const MINUTE: Duration = Duration::from_secs(60);

/// A timer whose ticks take ten seconds and log the second within the test at which they start.
fn ticking(log: &Log, interval: Duration) -> Handlers<Gadget, TimerDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new().every("tick", interval, move |_, cx| {
        log.say((cx.now().as_second() - 1_800_000_000).to_string());
        async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        }
    })
}

/// Returns the seconds at which it ticked.
fn ticks(lab: &TestCluster) -> Vec<i64> {
    lab.log.take().iter().map(|words| words.parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn from_the_end_of_one_to_the_next() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, ticking(&log, MINUTE)).await;
    gadget(&lab, "g", 1).await;
    lab.pass(200).await;
    assert_eq!(ticks(&lab), [0, 70, 140]);
    lab.delete::<Gadget>("g").await;
    lab.pass(200).await;
    assert!(ticks(&lab).is_empty(), "it ends with the object");
}

#[tokio::test(start_paused = true)]
async fn sharp_is_from_tick_to_tick() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, ticking(&log, MINUTE).sharp().initial_delay(Duration::from_secs(5))).await;
    gadget(&lab, "g", 1).await;
    lab.pass(200).await;
    assert_eq!(ticks(&lab), [5, 65, 125, 185]);
}

#[tokio::test(start_paused = true)]
async fn idle_waits_until_nobody_edits() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, ticking(&log, MINUTE).idle(Duration::from_secs(100))).await;
    gadget(&lab, "g", 1).await;
    lab.pass(80).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    lab.pass(95).await;
    assert!(ticks(&lab).is_empty());
    lab.pass(100).await;
    assert_eq!(ticks(&lab), [180, 250]);
}

#[tokio::test(start_paused = true)]
async fn the_phase_outlives_the_process() {
    for (interval, expected) in [(MINUTE, vec![0, 70, 140]), (Duration::from_secs(30), vec![0, 40, 90])] {
        let mut lab = lab().await;
        let log = lab.log.clone();
        let running = run(&mut lab, ticking(&log, interval)).await;
        gadget(&lab, "g", 1).await;
        lab.pass(60).await;
        kill(&lab, &running).await;
        lab.pass(5).await;
        run(&mut lab, ticking(&log, interval)).await;
        lab.pass(85).await;
        // A one-minute timer continues where it was; a faster one, which is not recorded, follows the grid that starts
        // at creation.
        let ticked: Vec<i64> = ticks(&lab).into_iter().take(3).collect();
        assert_eq!(ticked, expected, "{interval:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_made_up_for_by_one() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, ticking(&log, MINUTE).sharp()).await;
    gadget(&lab, "g", 1).await;
    lab.pass(30).await;
    kill(&lab, &running).await;
    lab.pass(300).await;
    ticks(&lab);
    run(&mut lab, ticking(&log, MINUTE).sharp()).await;
    lab.pass(100).await;
    assert_eq!(ticks(&lab), [330, 360, 420], "one at once, then on the grid");
}

#[tokio::test(start_paused = true)]
async fn quick_ticks_write_nothing() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, ticking(&log, Duration::from_secs(5))).await;
    gadget(&lab, "g", 1).await;
    let version = lab.version::<Gadget>("g").await;
    lab.pass(100).await;
    assert!(ticks(&lab).len() > 5);
    assert_eq!(lab.version::<Gadget>("g").await, version);
    assert_eq!(get(&lab, "g").await.unwrap().metadata.annotations, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_tick_is_retried_and_a_hopeless_timer_ends() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new().every("tick", Duration::from_secs(1000), move |gadget, cx| {
        said.say(format!("{}", cx.attempt()));
        async move {
            match (gadget.spec.size, cx.attempt()) {
                (0, _) => Err(terminal("no size")),
                (_, 1) => Err(retry_after(Duration::from_secs(7), "busy")),
                _ => Ok(()),
            }
        }
    });
    lab.run(|operator| operator.control(Controller::<Gadget>::new().resync(None).handlers(handlers)));
    gadget(&lab, "g", 1).await;
    lab.pass(900).await;
    assert_eq!(log.take(), ["1", "2"]);
    gadget(&lab, "hopeless", 0).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    lab.pass(20_000).await;
    assert_eq!(log.take(), ["1", "1"], "one attempt each");
    lab.patch::<Gadget>("hopeless", json!({"spec": {"size": 2}})).await;
    lab.pass(10).await;
    assert_eq!(log.take(), ["1", "2"], "an edit gives it another chance");
}
