//! Tests that deletions and changes made by others are found, by polling and by pushed changes, and are corrected or
//! only reported.

use std::time::Duration;

use homeostat_runtime::world::{Drift, LeakDeletionLimits, PushedChange};
use serde_json::json;

use super::fake_api::{FakeApi, drifts, events, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

#[tokio::test(start_paused = true)]
async fn deletion_and_change_by_others_are_put_right_by_the_next_pass() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        lab.pass(70).await;
        let name = named(&ownership, "w");
        yard.take(&name);
        lab.pass(70).await;
        assert_eq!(yard.things(), [format!("{name}=0")], "{ownership:?}");
        yard.alter(&name, |thing| thing.size = 9);
        lab.pass(70).await;
        assert_eq!(yard.things(), [format!("{name}=0")]);
        assert_eq!(drifts(&running), [vec!["/".to_owned()], vec!["/size".to_owned()]]);
        let told = events(&lab, "Drifted").await;
        assert!(told.iter().any(|words| words.contains("/size is 9, should be 0; corrected")), "{told:?}");
        assert!(told.contains(&format!("{name} was deleted by others; created again")), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_is_answered_at_once() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    let running = run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(3600))).await;
    lab.widget("w").await;
    lab.rest().await;
    yard.calls();
    yard.alter("w", |thing| thing.size = 9);
    lab.rest().await;
    assert_eq!(yard.things(), ["w=0"]);
    yard.take("w");
    lab.rest().await;
    assert_eq!(yard.things(), ["w=0"]);
    assert_eq!(drifts(&running).len(), 2);
    assert!(!yard.calls().iter().any(|call| call.starts_with("list")));
}

#[tokio::test(start_paused = true)]
async fn drift_while_the_operator_was_down_is_drift() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    running.kill();
    yard.alter("w", |thing| thing.size = 9);
    let running = run(&mut lab, &yard, |outside| outside).await;
    assert_eq!(yard.things(), ["w=0"]);
    assert_eq!(drifts(&running), [["/size"]]);
}

#[tokio::test(start_paused = true)]
async fn by_policy_drift_is_only_reported_and_edits_are_still_carried_out() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.drift(Drift::Report)).await;
    lab.widget("w").await;
    yard.alter("w", |thing| thing.size = 9);
    yard.writes();
    lab.pass(70).await;
    assert_eq!(yard.things(), ["w=9"]);
    assert_eq!(yard.writes(), [] as [&str; 0]);
    assert_eq!(drifts(&running), [["/size"]]);
    let (status, reason, message) = synced(&lab, "w").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Drifted"));
    assert_eq!(message, "w: /size is 9, should be 0");
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    assert_eq!(yard.things(), ["w=2"]);
    assert_eq!(synced(&lab, "w").await.0, "True");
    yard.take("w");
    lab.pass(70).await;
    assert!(yard.things().is_empty(), "nor is it made again");
}

#[tokio::test(start_paused = true)]
async fn of_many_only_the_drifted_are_written() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    for number in 0..50 {
        lab.widget(&format!("w{number:02}")).await;
    }
    yard.calls();
    yard.switch(|switches| switches.page = Some(20));
    yard.alter("w07", |thing| thing.size = 9);
    yard.take("w21");
    lab.pass(70).await;
    let calls = yard.calls();
    assert_eq!(calls[..3], ["list", "list w20", "list w41"], "one list, by pages");
    assert_eq!(calls[3..].len(), 4, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.starts_with("get")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn reported_drift_is_still_only_reported_after_a_restart() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.drift(Drift::Report)).await;
    lab.widget("w").await;
    yard.alter("w", |thing| thing.size = 9);
    lab.pass(70).await;
    assert_eq!(synced(&lab, "w").await.1, "Drifted");
    running.kill();
    run(&mut lab, &yard, |outside| outside.drift(Drift::Report)).await;
    lab.pass(70).await;
    assert_eq!(yard.things(), ["w=9"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_the_start_does_not_turn_drift_into_a_wish() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.drift(Drift::Report)).await;
    lab.widget("w").await;
    running.kill();
    yard.alter("w", |thing| thing.size = 9);
    yard.switch(|switches| switches.is_down = true);
    run(&mut lab, &yard, |outside| outside.drift(Drift::Report)).await;
    lab.pass(300).await;
    yard.switch(|switches| switches.is_down = false);
    lab.pass(300).await;
    assert_eq!(yard.things(), ["w=9"]);
    assert_eq!(synced(&lab, "w").await.1, "Drifted");
}

#[tokio::test(start_paused = true)]
async fn what_a_broken_stream_would_have_told_is_found_by_a_pass() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(36_000))).await;
    lab.widget("w").await;
    yard.hang_up();
    yard.alter_quietly("w", |thing| thing.size = 9);
    lab.pass(5).await;
    assert_eq!(yard.things(), ["w=0"], "the end of the stream asks for a pass");
    yard.alter_quietly("w", |thing| thing.size = 9);
    lab.pass(60).await;
    assert_eq!(yard.things(), ["w=9"], "nobody said anything");
    yard.push(PushedChange::Unknown);
    lab.pass(5).await;
    assert_eq!(yard.things(), ["w=0"]);
    yard.alter("w", |thing| thing.size = 8);
    lab.rest().await;
    assert_eq!(yard.things(), ["w=0"], "and the new stream is heard");
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_of_drift_and_of_passes() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.put("theirs", 1, None);
    yard.put("leak", 1, Some("widgets.test.dev/default/never/1"));
    let running = run(&mut lab, &yard, |outside| outside.sweep(LeakDeletionLimits::default())).await;
    lab.widget("w").await;
    yard.alter("w", |thing| thing.size = 9);
    lab.pass(70).await;
    for (metric, value) in [
        ("homeostat_drift_total{controller=\"widget\"}", 1),
        ("homeostat_world_things{world=\"yard\",owner=\"us\"}", 2),
        ("homeostat_world_things{world=\"yard\",owner=\"others\"}", 1),
        ("homeostat_world_leaks{world=\"yard\"}", 1),
        ("homeostat_world_passes_total{world=\"yard\",sweep=\"done\"}", 2),
    ] {
        assert_eq!(running.metric(metric).await, value, "{metric}");
    }
}
