//! Tests that there is one probe at a time during an outage, and that the API never gets more calls than allowed.

use std::time::Duration;

use homeostat_core::journal::{Entry, WatchState};
use homeostat_runtime::world::Limits;
use serde_json::json;

use super::fake_api::{FakeApi, generous, run, synced};
use crate::test_cluster::{Running, TestCluster, Widget};

fn outage_entries(running: &Running) -> Vec<bool> {
    let records = running.journal.records().into_iter();
    let states = records.filter_map(|record| match record.entry {
        Entry::Watched { resource, state } if resource == "outside/yard" => Some(state),
        _ => None,
    });
    states.map(|state| state == WatchState::Fresh).collect()
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_one_probe_and_not_a_retry_per_object() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    for number in 0..40 {
        lab.widget(&format!("w{number}")).await;
    }
    yard.switch(|switches| switches.is_down = true);
    yard.calls();
    for number in 0..40 {
        lab.patch::<Widget>(&format!("w{number}"), json!({"spec": {"size": 1}})).await;
    }
    lab.delete::<Widget>("w39").await;
    let first = yard.calls();
    assert!(first.len() <= 6 && first.ends_with(&["list".to_owned()]), "{first:?} until the breaker opened");
    lab.pass(600).await;
    let probes = yard.calls();
    assert!(probes.len() <= 9, "{} probes in ten minutes", probes.len());
    assert!(probes.iter().all(|call| call == "list"), "{probes:?}");
    yard.switch(|switches| switches.is_down = false);
    lab.pass(125).await;
    assert_eq!(yard.things().len(), 39);
    assert!(yard.things().iter().all(|thing| thing.ends_with("=1")), "{:?}", yard.things());
    assert_eq!(outage_entries(&running).last(), Some(&true), "and the journal says so");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_starts_in_an_outage_waits_and_then_works() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.switch(|switches| switches.is_down = true);
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    lab.pass(600).await;
    yard.switch(|switches| switches.is_down = false);
    lab.pass(125).await;
    assert_eq!(yard.things(), ["w=0"]);
    assert_eq!(synced(&lab, "w").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_a_failure() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    yard.switch(|switches| switches.latency = Duration::from_secs(3600));
    lab.widget("w").await;
    lab.pass(40).await;
    yard.switch(|switches| switches.latency = Duration::ZERO);
    lab.pass(120).await;
    assert_eq!(yard.things(), ["w=0"]);
}

#[tokio::test(start_paused = true)]
async fn the_rate_and_the_calls_in_flight_are_limited() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let limits = Limits { per_second: 10.0, burst: 5, in_flight: 3, ..generous() };
    for number in 0..50 {
        lab.widget(&format!("w{number}")).await;
    }
    yard.switch(|switches| switches.latency = Duration::from_millis(900));
    run(&mut lab, &yard, |outside| outside.limits(limits)).await;
    lab.pass(4).await;
    let calls = yard.calls().len();
    assert!(calls <= 5 + 41, "{calls} calls in four seconds");
    lab.pass(60).await;
    assert_eq!(yard.things().len(), 50);
    assert_eq!(yard.in_flight_max(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_objects_meet_is_told_and_ends_with_the_next_probe_whatever_the_poll() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(3600))).await;
    yard.switch(|switches| switches.is_down = true);
    for number in 0..8 {
        lab.widget(&format!("w{number}")).await;
    }
    for (name, why) in [("w0", "the yard is closed"), ("w7", OUTAGE)] {
        let (status, reason, message) = synced(&lab, name).await;
        assert_eq!((status.as_str(), reason.as_str(), message.as_str()), ("False", "Unavailable", why));
    }
    assert_eq!(running.metric("homeostat_world_breaker_open{world=\"yard\"}").await, 1);
    let ready = running.page("/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("[!] outside/yard was last seen"), "{ready}");
    assert!(lab.has_logged("the API outside does not answer"));
    yard.switch(|switches| switches.is_down = false);
    lab.pass(6).await;
    assert_eq!(yard.things().len(), 8, "{:?}", yard.calls());
    assert_eq!(running.metric("homeostat_world_breaker_open{world=\"yard\"}").await, 0);
    assert!(running.page("/readyz").await.contains("[+] outside/yard ok"));
    assert!(lab.has_logged("the API outside answers again"));
    assert_eq!(synced(&lab, "w7").await.0, "True");
}

const OUTAGE: &str = "the API outside does not answer: the yard is closed";

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_has_not_succeeded() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(3600))).await;
    yard.switch(|switches| switches.is_down = true);
    lab.widget("w").await;
    for _ in 0..60 {
        lab.pass(2).await;
        assert_ne!(reconciled(&lab, "w").await.0, "True", "nothing was done yet");
    }
    assert_eq!(running.metric("homeostat_world_breaker_open{world=\"yard\"}").await, 1);
    assert_eq!(synced(&lab, "w").await.2, OUTAGE, "it was turned away at last");
    assert_eq!(reconciled(&lab, "w").await, ("False".to_owned(), "Failing".to_owned()));
    yard.switch(|switches| switches.is_down = false);
    lab.pass(125).await;
    assert_eq!(synced(&lab, "w").await.0, "True");
    assert_eq!(reconciled(&lab, "w").await, ("True".to_owned(), "Succeeded".to_owned()));
}

/// Returns status and reason of the condition `Reconciled` of a widget.
async fn reconciled(lab: &TestCluster, name: &str) -> (String, String) {
    let widget = lab.api::<Widget>().get(name).await.unwrap();
    let all = widget.status.map(|status| status.base.conditions).unwrap_or_default();
    let found = all.into_iter().find(|condition| condition.type_ == "Reconciled");
    found.map(|one| (one.status, one.reason)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn objects_that_always_fail_do_not_stop_the_others() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(3600))).await;
    yard.switch(|switches| switches.broken = Some("bad"));
    for number in 0..20 {
        lab.widget(&format!("bad{number}")).await;
    }
    for minute in 0..5 {
        let good = format!("good{minute}");
        lab.widget(&good).await;
        assert_eq!(yard.things().len(), minute + 1, "{good} was made at once");
        assert_eq!(synced(&lab, &good).await.0, "True");
        lab.pass(60).await;
    }
    let (_, reason, message) = synced(&lab, "bad0").await;
    assert_eq!((reason.as_str(), message.as_str()), ("Unavailable", "the yard is closed"));
    let calls = yard.calls();
    let (lists, tries) = (|call: &&String| *call == "list", |call: &&String| *call == "get bad0");
    let (lists, tries) = (calls.iter().filter(lists).count(), calls.iter().filter(tries).count());
    assert!(lists <= 60, "{lists} lists in five minutes, one in five seconds at the most");
    assert!(tries <= 20, "{tries} tries of one object in five minutes: it keeps its own back-off");
    yard.switch(|switches| switches.broken = None);
    lab.pass(600).await;
    assert_eq!(yard.things().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_and_stops_nobody() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    yard.switch(|switches| switches.is_unlistable = true);
    lab.pass(600).await;
    lab.widget("w").await;
    assert_eq!(yard.things(), ["w=0"]);
    assert!(running.metric("homeostat_world_pass_age_seconds{world=\"yard\"}").await >= 590);
    assert!(running.metric("homeostat_watch_failures_total{resource=\"outside/yard\"}").await >= 5);
    let ready = running.page("/readyz").await;
    assert!(ready.contains("s ago: the yard is closed"), "{ready}");
    yard.switch(|switches| switches.is_unlistable = false);
    lab.pass(130).await;
    assert!(running.metric("homeostat_world_pass_age_seconds{world=\"yard\"}").await < 130);
    assert!(running.page("/readyz").await.contains("[+] outside/yard ok"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_goes_round_in_a_circle_is_left() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    yard.switch(|switches| switches.is_circular = true);
    lab.pass(70).await;
    assert!(running.page("/readyz").await.contains("the list never ends"));
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_pause_gets_it() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.poll(Duration::from_secs(3600))).await;
    yard.switch(|switches| switches.busy = Some(Duration::from_secs(100)));
    lab.widget("first").await;
    yard.switch(|switches| switches.busy = None);
    yard.calls();
    lab.widget("second").await;
    lab.pass(98).await;
    assert_eq!(yard.calls(), [] as [&str; 0]);
    lab.pass(10).await;
    assert_eq!(yard.things(), ["first=0", "second=0"]);
}
