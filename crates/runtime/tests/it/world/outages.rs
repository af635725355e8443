//! An outage costs one probe at a time; the API is never asked harder than allowed.

use std::time::Duration;

use homeostat_core::journal::{Entry, WatchState};
use homeostat_runtime::world::Limits;
use serde_json::json;

use super::yard::{Yard, generous, run, synced};
use crate::lab::{Lab, Running, Widget};

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
    let (mut lab, yard) = (Lab::new().await, Yard::new());
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
    let first = yard.calls().len();
    assert!(first <= 5, "{first} calls until the breaker opened");
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
    let (mut lab, yard) = (Lab::new().await, Yard::new());
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
    let (mut lab, yard) = (Lab::new().await, Yard::new());
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
    let (mut lab, yard) = (Lab::new().await, Yard::new());
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
