//! Tests daemons: one task per object, which is asked to stop and then cancelled, and is started again when it fails.

use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_runtime::handlers::options::DaemonDeclared;
use homeostat_runtime::{Backoff, Handlers, terminal};
use serde_json::json;

use super::{Gadget, gadget, get, lab, run, says};
use crate::test_cluster::Log;

/// A daemon that logs when it starts and when it is asked to stop, and then takes this long to finish.
fn daemon(log: &Log, takes: Duration) -> Handlers<Gadget, DaemonDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new().daemon("watch", move |_, cx| {
        let log = log.clone();
        async move {
            log.say("begins");
            cx.stop().cancelled().await;
            log.say("stops");
            tokio::time::sleep(takes).await;
            log.say("ended");
            Ok(())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn it_lives_as_long_as_its_object() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, daemon(&log, Duration::from_secs(1))).await;
    gadget(&lab, "g", 1).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    assert_eq!(log.take(), ["begins"], "once, whatever happens to the object");
    lab.delete::<Gadget>("g").await;
    lab.pass(3).await;
    assert_eq!(log.take(), ["stops", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_heed_is_ended_after_its_grace() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = daemon(&log, Duration::from_secs(60)).grace(Duration::from_secs(3));
    run(&mut lab, handlers.on_delete("delete", says(&log, "delete"))).await;
    gadget(&lab, "g", 1).await;
    log.take();
    lab.delete::<Gadget>("g").await;
    lab.pass(2).await;
    assert_eq!(log.take(), ["stops"], "what it does must have ended before the deletion undoes it");
    assert!(get(&lab, "g").await.is_some());
    lab.pass(2).await;
    assert_eq!(log.take(), ["delete"], "it was dropped where it waited");
    assert!(get(&lab, "g").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn filters_start_and_stop_it() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, daemon(&log, Duration::ZERO).label("watched", "yes")).await;
    gadget(&lab, "g", 1).await;
    assert!(log.take().is_empty());
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"watched": "yes"}}})).await;
    assert_eq!(log.take(), ["begins"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"watched": "no"}}})).await;
    assert_eq!(log.take(), ["stops", "ended"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"watched": "yes"}}})).await;
    assert_eq!(log.take(), ["begins"]);
}

#[tokio::test(start_paused = true)]
async fn it_stops_with_the_operator() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, daemon(&log, Duration::from_secs(1))).await;
    gadget(&lab, "g", 1).await;
    running.stop.cancel();
    lab.pass(3).await;
    assert_eq!(log.take(), ["begins", "stops", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_one_is_started_again() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new()
        .daemon("watch", move |_, cx| {
            said.say(format!("life {} with size {}", cx.attempt(), cx.live().unwrap().spec.size));
            async move {
                match cx.live().unwrap().spec.size {
                    0 => Err(terminal("no size")),
                    1 => panic!("a daemon may panic"),
                    2 => Err("broken")?,
                    _ => Ok(()),
                }
            }
        })
        .restart(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(60)).jitter(0.0));
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    lab.pass(35).await;
    assert_eq!(log.take(), ["life 1 with size 1", "life 2 with size 1", "life 3 with size 1"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    lab.pass(40).await;
    assert_eq!(log.take(), ["life 4 with size 2"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    lab.pass(1000).await;
    assert_eq!(log.take(), ["life 5 with size 0"], "it gave up");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 3}})).await;
    lab.pass(1000).await;
    assert_eq!(log.take(), ["life 1 with size 3"], "an edit starts it again; now it has done its work");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 4}})).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_lived_long_and_well_is_started_again_as_soon_as_after_a_first_failure() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new()
        .daemon("watch", move |_, cx| {
            said.say(format!("life {}", cx.attempt()));
            async move {
                tokio::time::sleep(Duration::from_secs(11 * 60)).await;
                Err("broken")?
            }
        })
        .restart(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(3600)).jitter(0.0));
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    lab.pass(4 * (11 * 60 + 10) + 5).await;
    assert_eq!(log.take(), ["life 1", "life 2", "life 2", "life 2", "life 2"]);
}

#[tokio::test(start_paused = true)]
async fn it_runs_where_the_lease_is() {
    let mut lab = lab().await;
    gadget(&lab, "g", 1).await;
    let (one, two) = (Log::default(), Log::default());
    lab.run_on(true, |operator| operator.leader_election().control(daemon(&one, Duration::ZERO)));
    lab.pass(30).await;
    lab.run_on(false, |operator| operator.leader_election().control(daemon(&two, Duration::ZERO)));
    lab.pass(30).await;
    assert_eq!((one.take(), two.take()), (vec!["begins".to_owned()], vec![]));
    lab.faults.set(|request| request.uri().path().contains("leases").then_some(InjectedFault::Unreachable));
    lab.pass(120).await;
    assert_eq!(one.take(), ["stops", "ended"]);
    assert_eq!(two.take(), ["begins"]);
}
