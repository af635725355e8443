//! Tests updates that have no effect, take effect late, or are undone by another writer.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::fake_api::{FakeApi, drifts, events, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

/// Returns status and reason of `Synced`.
async fn word(lab: &TestCluster) -> String {
    let (status, reason, _) = synced(lab, "w").await;
    format!("{status} {reason}")
}

#[tokio::test(start_paused = true)]
async fn an_update_that_does_not_take_is_told_once_and_sent_ever_more_rarely() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        let name = named(&ownership, "w");
        lab.widget("w").await;
        yard.switch(|switches| switches.ignores_updates = true);
        yard.writes();
        lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
        lab.pass(70).await;
        assert_eq!(yard.writes().len(), 2, "the next pass sees it and tries again");
        assert_eq!(word(&lab).await, "False Settling");
        lab.pass(70).await;
        assert_eq!(yard.writes().len(), 1);
        let (status, reason, message) = synced(&lab, "w").await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NotTaken"), "{ownership:?}");
        let told =
            format!("{name}: /size is 0, should be 5; the API accepts our updates but does not change it");
        assert_eq!(message, told);
        assert_eq!(events(&lab, "NotTaken").await, [told]);
        assert_eq!(events(&lab, "Updated").await.len(), 1);
        lab.pass(3 * 3600).await;
        assert!((5..=9).contains(&yard.writes().len()), "in three hours");
        assert_eq!(word(&lab).await, "False NotTaken");
        // The server forgets it after an hour of its own time, which differs from ours over TLS.
        assert!(events(&lab, "NotTaken").await.len() <= 1, "no more came");
        assert!(drifts(&running).is_empty(), "nobody else changed anything");
        yard.switch(|switches| switches.ignores_updates = false);
        lab.pass(3600).await;
        assert_eq!(yard.things(), [format!("{name}=5")]);
        lab.pass(70).await;
        assert_eq!(word(&lab).await, "True InSync");
        let writes = yard.writes();
        lab.pass(3600).await;
        assert_eq!((writes.len(), yard.writes().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn drift_that_cannot_be_put_right_is_drift_once() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.switch(|switches| switches.ignores_updates = true);
    yard.alter("w", |thing| thing.size = 9);
    lab.pass(3600).await;
    assert_eq!(word(&lab).await, "False NotTaken");
    assert_eq!(drifts(&running), [["/size"]]);
    assert_eq!(running.metric("homeostat_drift_total{controller=\"widget\"}").await, 1);
    assert_eq!(events(&lab, "Drifted").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_wish_and_another_sight_begin_anew() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.switch(|switches| switches.ignores_updates = true);
    lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
    lab.pass(3600).await;
    assert_eq!(word(&lab).await, "False NotTaken");
    yard.writes();
    lab.patch::<Widget>("w", json!({"spec": {"size": 6}})).await;
    assert_eq!(yard.writes(), ["update w"], "at once");
    lab.pass(3600).await;
    assert!(synced(&lab, "w").await.2.contains("/size is 0, should be 6"));
    yard.writes();
    yard.alter("w", |thing| thing.size = 1);
    lab.pass(70).await;
    assert_eq!(yard.writes()[..1], ["update w"], "by the next pass, whatever the pause was");
    lab.delete::<Widget>("w").await;
    assert!(yard.things().is_empty(), "and nothing keeps it from going");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_shows_late_is_sent_once_and_is_no_drift() {
    for is_push in [false, true] {
        let (mut lab, yard) =
            (TestCluster::new().await, if is_push { FakeApi::telling() } else { FakeApi::new() });
        let running = run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(5))).await;
        lab.widget("w").await;
        lab.pass(30).await;
        yard.switch(|switches| switches.lag = Duration::from_secs(20));
        yard.writes();
        lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
        lab.pass(60).await;
        assert_eq!(yard.writes(), ["update w"]);
        assert!(drifts(&running).is_empty());
        assert_eq!(word(&lab).await, "True InSync");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_tells_of_updates_it_ignores_makes_no_hot_loop() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.switch(|switches| switches.ignores_updates = true);
    yard.calls();
    lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
    lab.pass(50).await;
    let calls = yard.calls();
    assert!(calls.len() < 20, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "update w").count(), 2, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_undoes_again_and_again_is_contested() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    for round in 1..=5 {
        yard.alter("w", |thing| thing.size = 9);
        lab.pass(10).await;
        assert_eq!(yard.things(), ["w=0"], "round {round}");
        assert_eq!(word(&lab).await, "True InSync");
    }
    yard.alter("w", |thing| thing.size = 9);
    lab.rest().await;
    assert_eq!(yard.things(), ["w=9"], "a pause in the fight");
    assert_eq!(word(&lab).await, "False Contested");
    let told = "w: /size is 9, should be 0; somebody else reverts our update each time";
    assert_eq!(events(&lab, "Contested").await, [told]);
    assert_eq!(drifts(&running).len(), 5, "that it is so again is no news");
    yard.alter("w", |thing| thing.size = 8);
    lab.rest().await;
    assert_eq!(yard.things(), ["w=0"], "another value is another matter");
    yard.alter("w", |thing| thing.size = 9);
    lab.pass(600).await;
    assert_eq!(yard.things(), ["w=0"]);
    assert_eq!(word(&lab).await, "True InSync");
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_is_not_kept_is_told_instead_of_adopting_for_ever() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.switch(|switches| switches.forgets_marks = true);
    yard.put("w", 0, None);
    run(&mut lab, &yard, |outside| outside.adopt(|_, _| true)).await;
    lab.widget("w").await;
    lab.pass(3600).await;
    let (_, reason, message) = synced(&lab, "w").await;
    assert_eq!(reason, "NotTaken");
    assert!(message.starts_with("w: it does not carry our mark"), "{message}");
    assert_eq!(events(&lab, "Adopted").await.len(), 1);
    assert!(yard.writes().len() < 10);
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_what_does_not_take() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.switch(|switches| switches.ignores_updates = true);
    lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
    lab.pass(600).await;
    assert_eq!(word(&lab).await, "False NotTaken");
    running.kill();
    yard.writes();
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.pass(60).await;
    assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("False NotTaken", 0), "nor tries it anew");
    lab.pass(600).await;
    assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("False NotTaken", 2), "but now and then");
    running.kill();
    yard.alter("w", |thing| thing.size = 1);
    run(&mut lab, &yard, |outside| outside).await;
    assert_eq!(yard.writes(), ["update w"], "another difference is another matter");
    yard.switch(|switches| switches.ignores_updates = false);
    lab.pass(3600).await;
    assert_eq!(word(&lab).await, "True InSync");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_a_fight() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    for _ in 0..6 {
        yard.alter("w", |thing| thing.size = 9);
        lab.pass(10).await;
    }
    assert_eq!(word(&lab).await, "False Contested");
    running.kill();
    yard.writes();
    run(&mut lab, &yard, |outside| outside).await;
    lab.pass(60).await;
    assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("False Contested", 0));
    lab.pass(120).await;
    assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("True InSync", 1), "after the pause");
    yard.alter("w", |thing| thing.size = 9);
    lab.rest().await;
    assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("False Contested", 0), "it goes on");
}

/// The condition is for people: its status, its wording and its presence do not affect anything.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_read_the_words_of_the_condition() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        yard.switch(|switches| switches.ignores_updates = true);
        lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
        lab.pass(600).await;
        assert_eq!(word(&lab).await, "False NotTaken");
        running.kill();
        let status = Patch::Merge(json!({"status": {"conditions": []}}));
        lab.api::<Widget>().patch_status("w", &PatchParams::default(), &status).await.unwrap();
        yard.writes();
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(60).await;
        assert_eq!((word(&lab).await.as_str(), yard.writes().len()), ("False NotTaken", 0), "{ownership:?}");
        yard.switch(|switches| switches.ignores_updates = false);
        lab.pass(3600).await;
        assert_eq!(word(&lab).await, "True InSync");
        let left = lab.api::<Widget>().get("w").await.unwrap().metadata.annotations.unwrap_or_default();
        assert!(left.keys().all(|name| !name.ends_with(".lasting")), "it is cleared: {left:?}");
    }
}
