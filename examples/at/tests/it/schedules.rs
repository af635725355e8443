//! Schedules: far, past, moved, and unreadable.

use std::time::Duration;

use homeostat_example_at::Phase;
use serde_json::json;

use crate::test_cluster::TestCluster;

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_no_time_is_refused_until_it_is_edited() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", "tomorrow at noon").await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Pending));
    let (status, reason, message) = lab.condition("demo", "Scheduled").await.unwrap();
    assert_eq!((&*status, &*reason), ("False", "BadSchedule"));
    assert!(message.contains("\"tomorrow at noon\""), "{message}");
    let (status, reason, _) = lab.condition("demo", "Reconciled").await.unwrap();
    assert_eq!((&*status, &*reason), ("False", "TerminalError"));
    let runs = lab.runs("demo");
    lab.pass(Duration::from_secs(1800)).await;
    assert_eq!(lab.runs("demo"), runs, "nothing is retried");
    assert_eq!(lab.events().await, ["BadSchedule"]);

    lab.edit("demo", json!({"schedule": crate::test_cluster::START})).await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Running));
    assert_eq!(lab.condition("demo", "Scheduled").await.unwrap().0, "True");
    assert_eq!(lab.condition("demo", "Reconciled").await.unwrap().0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_can_be_moved_while_it_waits() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", &lab.after(Duration::from_secs(3600))).await;
    lab.settle().await;
    lab.edit("demo", json!({"schedule": lab.after(Duration::from_secs(60))})).await;
    lab.pass(Duration::from_secs(58)).await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Pending));
    lab.pass(Duration::from_secs(4)).await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_century_is_not_too_long() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", "2126-01-01T00:00:00Z").await;
    lab.create_at("last", "9999-12-31T23:59:59Z").await;
    lab.create_at("offset", "2026-02-10T22:31:00+02:00").await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Pending));
    assert_eq!(lab.phase("offset").await, Some(Phase::Pending));
    let (status, _, message) = lab.condition("last", "Scheduled").await.unwrap();
    assert_eq!((&*status, &*message), ("True", "runs at 9999-12-31T23:59:59Z"));
    lab.pass(Duration::from_secs(61)).await;
    assert_eq!(lab.phase("offset").await, Some(Phase::Running));
}
