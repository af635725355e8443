//! Tests what happens while the watch is interrupted: deletions in a gap, expired revisions, an unreachable server.

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Cause, Change, Entry};
use homeostat_runtime::changed;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, config, entries};

fn causes(entry: Entry) -> Option<Vec<Cause>> {
    match entry {
        Entry::Started { causes, .. } => Some(causes),
        _ => None,
    }
}

/// Disconnects the operator, runs `change`, forgets the history, and reconnects: only a list can close such a gap.
async fn in_a_gap(lab: &TestCluster, deed: impl Future<Output = ()>) {
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    deed.await;
    lab.return_without_history().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_deleted_in_a_gap_is_missed_and_found() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller.owns::<ConfigMap>()).await;
    let owner = lab.widget("owner").await;
    let child = lab.create(&config("child", &[&owner])).await;
    lab.log.take();
    in_a_gap(&lab, lab.delete::<ConfigMap>("child")).await;
    assert_eq!(lab.log.take(), ["owner"]);
    let expected = Cause::Owned { child: homeostat_runtime::kind::key_of(&child), change: Change::Missed };
    assert_eq!(entries(&running, "owner", causes).last(), Some(&vec![expected]));
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_in_a_gap_is_found_gone() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller).await;
    lab.widget("w").await;
    in_a_gap(&lab, lab.delete::<Widget>("w")).await;
    assert_eq!(entries(&running, "w", causes).last(), Some(&vec![Cause::Deleted]));
}

#[tokio::test(start_paused = true)]
async fn an_object_changed_in_a_gap_is_reconciled() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller).await;
    lab.widget("same").await;
    lab.widget("w").await;
    lab.log.take();
    in_a_gap(&lab, async {
        lab.patch::<Widget>("w", json!({"spec": {"size": 9}})).await;
    })
    .await;
    assert_eq!(lab.log.take(), ["w"], "only what changed");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_returns_is_followed_from_where_it_was() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller).await;
    lab.widget("w").await;
    lab.log.take();
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.patch::<Widget>("w", json!({"spec": {"size": 9}})).await;
    lab.pass(100).await;
    assert!(lab.log.take().is_empty());
    let fresh = "homeostat_watch_fresh{resource=\"test.dev/widgets\"}";
    assert_eq!(running.metric(fresh).await, 0);
    assert!(running.page("/readyz").await.contains("the server is not reachable"));
    assert!(running.page("/healthz").await.starts_with("HTTP/1.1 200"), "a restart would not help");
    assert!(running.metric("homeostat_watch_failures_total{resource=\"test.dev/widgets\"}").await > 3);
    assert!(lab.has_logged("cannot watch test.dev/widgets"));
    assert_eq!(lab.times_logged("cannot watch"), 1, "the outage, not every try");
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["w"]);
    assert_eq!(running.metric(fresh).await, 1);
    assert!(lab.has_logged("watch is in step again"));
}

/// Restores the server from a backup that is older than the operator's state: lower revisions, different objects.
async fn restored(lab: &TestCluster, refuse_streams: bool) -> TestCluster {
    let restored = TestCluster::second().await;
    restored.widget("w").await;
    restored.widget("forgotten").await;
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.pass(3).await;
    lab.faults.redirect_to(restored.client.clone());
    lab.faults.set(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let is_refused = refuse_streams && query.contains("sendInitialEvents");
        is_refused.then_some(InjectedFault::Refuse(422, "sendInitialEvents is forbidden"))
    });
    restored
}

async fn check_restored(refuse_streams: bool) {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller.when(changed::generation())).await;
    lab.widget("w").await;
    lab.widget("gone").await;
    for size in 1..20 {
        lab.patch::<Widget>("w", json!({"spec": {"size": size}})).await;
    }
    lab.log.take();
    let restored = restored(&lab, refuse_streams).await;
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["forgotten", "w"], "what it holds now is the truth");
    assert_eq!(entries(&running, "gone", causes).last(), Some(&vec![Cause::Deleted]));
    restored.patch::<Widget>("w", json!({"spec": {"size": 7}})).await;
    restored.widget("new").await;
    assert_eq!(lab.log.take(), ["w", "new"], "and what happens there is seen");
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_from_an_older_backup_is_believed() {
    check_restored(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_without_streaming_lists_is_believed() {
    check_restored(true).await;
}
