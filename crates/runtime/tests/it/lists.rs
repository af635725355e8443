//! Tests how the initial state is read: as a stream if the server supports it, in pages if anything prevents that, and
//! never in a loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, WatchState};

use crate::test_cluster::{Running, TestCluster};

/// The response from kube-apiserver if its etcd cannot report progress.
const NO_PROGRESS: &str = "the required storage feature RequestWatchProgress is disabled";

/// The beginning of a stream that the server then abandons.
const ERROR_EVENT: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not now","#,
    r#""reason":"InternalError","code":500}}"#,
    "\n"
);

/// Counts the widget requests that the rule breaks; beyond this many they are left hanging, so that a loop ends.
fn count_broken(
    lab: &TestCluster,
    rule: impl Fn(&str) -> Option<InjectedFault> + Send + 'static,
) -> Arc<AtomicUsize> {
    const LOOP_MAX: usize = 2_000;
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    lab.faults.set(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let breakage = rule(query).filter(|_| request.uri().path().contains("widgets"))?;
        let so_far = counted.fetch_add(1, Ordering::Relaxed);
        Some(if so_far < LOOP_MAX { breakage } else { InjectedFault::Hang })
    });
    count
}

/// Breaks streaming lists of widgets and nothing else.
fn break_streams(lab: &TestCluster, breakage: InjectedFault) -> Arc<AtomicUsize> {
    count_broken(lab, move |query| query.contains("sendInitialEvents").then_some(breakage))
}

/// Returns whether this watch continues where another ended.
fn is_resumed(query: &str) -> bool {
    query.contains("watch=true") && !query.contains("sendInitialEvents")
}

#[tokio::test(start_paused = true)]
async fn whatever_a_server_does_to_a_streaming_list_it_is_paged() {
    for (breakage, seconds) in [
        (InjectedFault::Refuse(500, NO_PROGRESS), 0),
        (InjectedFault::Refuse(422, "sendInitialEvents is forbidden"), 0),
        (InjectedFault::Refuse(400, "unknown parameter"), 0),
        (InjectedFault::Refuse(403, "no streams for you"), 0),
        (InjectedFault::Refuse(410, "too old"), 0),
        (InjectedFault::Refuse(429, "too many requests"), 2),
        (InjectedFault::Answer(ERROR_EVENT), 0),
        (InjectedFault::Answer(""), 0),
        (InjectedFault::Answer("nonsense\n"), 1),
        (InjectedFault::Unreachable, 1),
        (InjectedFault::Stall(200), 20),
        (InjectedFault::Stall(500), 10),
        (InjectedFault::Hang, 60),
    ] {
        let mut lab = TestCluster::new().await;
        for number in 0..3 {
            lab.widget(&format!("w{number}")).await;
        }
        break_streams(&lab, breakage);
        lab.run_logging(|controller| controller).await;
        lab.pass(seconds).await;
        assert_eq!(lab.log.take(), ["w0", "w1", "w2"]);
        lab.widget("late").await;
        assert_eq!(lab.log.take(), ["late"]);
    }
}

/// Makes the operator list again: breaks its watches after the server has forgotten the history.
async fn list_again(lab: &TestCluster) {
    lab.pass(60).await;
    lab.faults.cut();
    lab.return_without_history().await;
}

#[tokio::test(start_paused = true)]
async fn that_a_server_does_not_stream_is_remembered_for_half_an_hour() {
    let mut lab = TestCluster::new().await;
    let streams = break_streams(&lab, InjectedFault::Refuse(500, NO_PROGRESS));
    lab.run_logging(|controller| controller).await;
    for _ in 0..3 {
        lab.widget("w").await;
        list_again(&lab).await;
        lab.delete::<crate::test_cluster::Widget>("w").await;
    }
    assert_eq!(streams.load(Ordering::Relaxed), 1, "asked once");
}

/// Returns how often the widget watch failed.
fn failures(running: &Running) -> usize {
    let records = running.journal.records().into_iter();
    let failing = records
        .filter(|record| matches!(&record.entry, Entry::Watched { state: WatchState::Failing { .. }, .. }));
    failing.count()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_always_too_old_after_pages_waits_between_lists() {
    let mut lab = TestCluster::new().await;
    let count = count_broken(&lab, |query| {
        if query.contains("sendInitialEvents") {
            return Some(InjectedFault::Refuse(400, "no streaming lists here"));
        }
        query.contains("watch=true").then_some(InjectedFault::Refuse(410, "too old resource version"))
    });
    let running = lab.run_logging(|controller| controller).await;
    lab.pass(10).await;
    let count = count.load(Ordering::Relaxed);
    assert!(count < 20, "{count} requests in ten seconds");
    assert!(failures(&running) > 2, "and it is told");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_expires_after_its_end_waits_between_lists() {
    const EXPIRES: &str = concat!(
        r#"{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"test.dev/v1","metadata":{"resourceVersion":"900","#,
        r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","#,
        r#""reason":"Expired","code":410}}"#,
        "\n"
    );
    let mut lab = TestCluster::new().await;
    let count = break_streams(&lab, InjectedFault::Answer(EXPIRES));
    lab.run_logging(|controller| controller).await;
    lab.pass(10).await;
    let count = count.load(Ordering::Relaxed);
    assert!(count < 20, "{count} requests in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_after_one_bookmark_are_not_asked_for_in_a_loop() {
    const BOOKMARK: &str = concat!(
        r#"{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"test.dev/v1","metadata":{"resourceVersion":"900"}}}"#,
        "\n"
    );
    let mut lab = TestCluster::new().await;
    let count = count_broken(&lab, |query| is_resumed(query).then_some(InjectedFault::Answer(BOOKMARK)));
    lab.run_logging(|controller| controller).await;
    lab.faults.cut();
    lab.pass(10).await;
    let count = count.load(Ordering::Relaxed);
    assert!((5..20).contains(&count), "{count} requests in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_words_never_come_does_not_hold_a_watch_up() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller).await;
    let count = count_broken(&lab, |query| is_resumed(query).then_some(InjectedFault::Stall(500)));
    lab.faults.cut();
    lab.pass(60).await;
    assert!(count.load(Ordering::Relaxed) > 2 && failures(&running) > 2, "it tries again");
    lab.faults.clear();
    lab.pass(60).await;
    lab.widget("w").await;
    assert_eq!(lab.log.take(), ["w"]);
}
