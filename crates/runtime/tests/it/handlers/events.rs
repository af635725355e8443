//! Tests raw events: every change, in order, without progress, and without keeping objects that nothing else needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::Key;
use homeostat_core::journal::Entry;
use homeostat_runtime::handlers::{HandlerContext, RawEvent};
use homeostat_runtime::{Action, Controller, Error, Handlers, Result};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Gadget, GadgetSpec, gadget, get, lab, run};
use crate::test_cluster::{Log, TestCluster};

/// A listener that logs the events it receives.
fn says(
    log: &Log,
) -> impl Fn(RawEvent<Gadget>, HandlerContext<Gadget>) -> std::future::Ready<Result<()>> + Clone + use<> {
    let log = log.clone();
    move |event, _| {
        log.say(format!("{:?} {} {}", event.change, name_of(&event), event.object.spec.size));
        std::future::ready(Ok(()))
    }
}

fn name_of(event: &RawEvent<Gadget>) -> &str {
    event.object.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the log, sorted: events of different objects are delivered concurrently.
fn sorted(log: &Log) -> Vec<String> {
    let mut said = log.take();
    said.sort();
    said
}

#[tokio::test(start_paused = true)]
async fn every_change_in_order() {
    for is_kept in [false, true] {
        let mut lab = lab().await;
        gadget(&lab, "old", 1).await;
        let log = lab.log.clone();
        let said = log.clone();
        let handlers = Handlers::<Gadget>::new()
            .on_event("listen", move |event, _| {
                let said = said.clone();
                async move {
                    // This is slower than the changes arrive.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    said.say(format!("{:?} {}", event.change, event.object.spec.size));
                    if event.object.spec.size == 2 { Err("a listener may fail")? } else { Ok(()) }
                }
            })
            .when(|gadget| gadget.spec.size != 4);
        run_beside(&mut lab, handlers, is_kept).await;
        gadget(&lab, "g", 1).await;
        for size in 2..=5 {
            lab.patch::<Gadget>("g", json!({"spec": {"size": size}})).await;
        }
        lab.delete::<Gadget>("g").await;
        lab.pass(10).await;
        let said = log.take();
        assert_eq!(
            said,
            ["Listed 1", "Added 1", "Modified 2", "Modified 3", "Modified 5", "Deleted 5"],
            "none is merged, none is retried, and one object does not wait for another; kept: {is_kept}"
        );
    }
}

/// Runs listeners, alone or with a controller that needs the objects.
async fn run_beside<L>(
    lab: &mut TestCluster,
    handlers: Handlers<Gadget, L>,
    is_kept: bool,
) -> crate::test_cluster::Running {
    let running = lab.run(|operator| {
        let operator = operator.control(Controller::new().named("listening").handlers(handlers));
        if !is_kept {
            return operator;
        }
        let reconcile = |_, _| async { Ok(Action::await_change()) };
        operator.control(Controller::<Gadget>::new().reconcile(reconcile))
    });
    lab.rest().await;
    running
}

const CACHED: &str = "homeostat_cache_objects{resource=\"test.dev/gadgets\"}";
const FRESH: &str = "homeostat_watch_fresh{resource=\"test.dev/gadgets\"}";

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_unless_another_controller_needs_it() {
    for (is_kept, objects) in [(false, 0), (true, 3)] {
        let mut lab = lab().await;
        for name in ["a", "b", "c"] {
            gadget(&lab, name, 1).await;
        }
        let handlers = Handlers::new().on_event("listen", says(&lab.log));
        let running = run_beside(&mut lab, handlers, is_kept).await;
        assert_eq!(sorted(&lab.log), ["Listed a 1", "Listed b 1", "Listed c 1"]);
        assert_eq!(running.metric(CACHED).await, objects, "kept: {is_kept}");
        assert_eq!(running.metric(FRESH).await, 1);
        let ready = running.page("/readyz").await;
        assert!(ready.contains("200 OK") && ready.contains("[+] test.dev/gadgets ok"), "{ready}");
        let known = running.journal.about(&Key::new("test.dev", "gadgets", "default", "a"));
        let is_settled = known.iter().any(|record| matches!(record.entry, Entry::Settled { .. }));
        assert_eq!(is_settled, is_kept, "without a reconciler nothing is queued: {known:?}");
    }
}

/// Tests what listeners see after the watch was interrupted and its history is lost.
#[tokio::test(start_paused = true)]
async fn after_a_gap_everything_is_listed_again_and_deletions_are_told_where_a_cache_knows() {
    let after_gap = [
        (false, vec!["Listed changed 2", "Listed new 1", "Listed same 1"]),
        (true, vec!["Added new 1", "Missed gone 1", "Modified changed 2"]),
    ];
    for (is_kept, expected) in after_gap {
        let mut lab = lab().await;
        for name in ["changed", "gone", "same"] {
            gadget(&lab, name, 1).await;
        }
        let handlers = Handlers::new().on_event("listen", says(&lab.log));
        let running = run_beside(&mut lab, handlers, is_kept).await;
        lab.log.take();
        lab.faults.set(|_| Some(InjectedFault::Unreachable));
        lab.faults.cut();
        lab.pass(5).await;
        assert_eq!(running.metric(FRESH).await, 0, "a watch that is cut off is not fresh");
        assert!(running.page("/readyz").await.contains("[-] test.dev/gadgets"));
        lab.delete::<Gadget>("gone").await;
        lab.patch::<Gadget>("changed", json!({"spec": {"size": 2}})).await;
        gadget(&lab, "new", 1).await;
        lab.return_without_history().await;
        assert_eq!(sorted(&lab.log), expected, "kept: {is_kept}");
        assert_eq!(running.metric(FRESH).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_break_repeats_and_loses_nothing() {
    let mut lab = lab().await;
    gadget(&lab, "g", 1).await;
    let handlers = Handlers::new().on_event("listen", says(&lab.log));
    run(&mut lab, handlers).await;
    lab.log.take();
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.rest().await;
    gadget(&lab, "brief", 1).await;
    lab.delete::<Gadget>("brief").await;
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["Added brief 1", "Deleted brief 1"]);
}

/// More objects than may wait, and a slow listener: the list waits for it, and no object is skipped.
#[tokio::test(start_paused = true)]
async fn the_watch_waits_for_a_slow_listener_and_none_is_lost() {
    const OBJECTS: usize = 1_500;
    /// The number that may wait (`ROOM`), those being delivered, and the rest of a page.
    const AHEAD_MAX: usize = 1024 + 32 + 1;
    let mut lab = lab().await;
    for number in 0..OBJECTS {
        let one = Gadget::new(&format!("g{number}"), GadgetSpec { size: 1, ..GadgetSpec::default() });
        lab.api::<Gadget>().create(&PostParams::default(), &one).await.unwrap();
    }
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let handlers = Handlers::<Gadget>::new().on_event("slow", move |_, _| {
        let count = count.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    });
    let running = run(&mut lab, handlers).await;
    let observed = |running: &crate::test_cluster::Running| {
        let records = running.journal.records().into_iter();
        records.filter(|record| format!("{:?}", record.entry).starts_with("Observed")).count()
    };
    assert!(running.page("/readyz").await.contains("reading the initial state"));
    let mut steps = 0;
    while told.load(Ordering::Relaxed) < OBJECTS {
        let (seen, told) = (observed(&running), told.load(Ordering::Relaxed));
        assert!(seen <= told + AHEAD_MAX, "{seen} were read when {told} had been told");
        lab.pass(1).await;
        steps += 1;
        assert!(steps < 60, "only {told} of {OBJECTS} in a minute");
    }
    assert!(running.page("/readyz").await.contains("[+] test.dev/gadgets ok"));
    lab.api::<Gadget>().delete("g7", &DeleteParams::default()).await.unwrap();
    lab.pass(2).await;
    assert_eq!(told.load(Ordering::Relaxed), OBJECTS + 1, "and it goes on after the list");
}

/// A list that expires before its listeners have finished with it is reported and started again.
#[tokio::test(start_paused = true)]
async fn a_list_that_expires_under_slow_listeners_says_so() {
    let mut lab = lab().await;
    for number in 0..501 {
        let one = Gadget::new(&format!("g{number}"), GadgetSpec::default());
        lab.api::<Gadget>().create(&PostParams::default(), &one).await.unwrap();
    }
    lab.faults.set(|request| {
        let query = request.uri().query().unwrap_or_default();
        query.contains("continue=").then_some(InjectedFault::Refuse(410, "the continue token is too old"))
    });
    let running = run(&mut lab, Handlers::<Gadget>::new().on_event("listen", |_, _| async { Ok(()) })).await;
    assert!(running.page("/readyz").await.contains("they take longer than the server keeps a list"));
    lab.faults.clear();
    lab.pass(60).await;
    assert!(running.page("/readyz").await.contains("[+] test.dev/gadgets ok"));
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_is_told_and_hears_the_next_change() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new().on_event("listen", move |event, _| {
        log.say(event.object.spec.size.to_string());
        async move {
            assert!(event.object.spec.size != 2, "two");
            Ok(())
        }
    });
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    for size in 2..=3 {
        lab.patch::<Gadget>("g", json!({"spec": {"size": size}})).await;
    }
    assert_eq!(lab.log.take(), ["1", "2", "3"]);
    assert!(lab.has_logged("listener failed"));
}

/// Reading objects that are not kept is an error, not an empty result; writing the status works.
#[tokio::test(start_paused = true)]
async fn a_listener_cannot_read_what_is_not_kept_and_can_write() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new().on_event("listen", move |event, cx: HandlerContext<Gadget>| {
        let log = log.clone();
        async move {
            let found = cx.get::<Gadget>("g");
            log.say(format!("{:?} {}", event.change, matches!(found, Err(Error::NotDeclared { .. }))));
            cx.status(|status| status.outside = Some("heard".to_owned()));
            Ok(())
        }
    });
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(lab.log.take(), ["Added true", "Modified true"], "its own write is a change like any other");
    assert_eq!(get(&lab, "g").await.unwrap().status.unwrap().outside.as_deref(), Some("heard"));
}

/// The one of two replicas that holds the lease gets the events; the next one gets all existing objects when it
/// acquires the lease.
#[tokio::test(start_paused = true)]
async fn the_lease_decides_who_hears_and_its_next_holder_is_shown_everything() {
    for is_kept in [false, true] {
        let mut lab = lab().await;
        gadget(&lab, "old", 1).await;
        let (one, two) = (Log::default(), Log::default());
        let build = |operator: homeostat_runtime::Operator, log: &Log| {
            let listening = Controller::new().named("listening");
            let handlers = Handlers::new().on_event("listen", says(log));
            let operator = operator.leader_election().control(listening.handlers(handlers));
            let control = Controller::<Gadget>::new().reconcile(|_, _| async { Ok(Action::await_change()) });
            if is_kept { operator.control(control) } else { operator }
        };
        let first = lab.run_on(true, |operator| build(operator, &one));
        lab.pass(30).await;
        let _second = lab.run_on(false, |operator| build(operator, &two));
        lab.pass(30).await;
        assert_eq!(one.take(), ["Listed old 1"], "kept: {is_kept}");
        gadget(&lab, "new", 1).await;
        assert_eq!((one.take(), two.take()), (vec!["Added new 1".to_owned()], vec![]));
        first.stop.cancel();
        lab.pass(30).await;
        assert_eq!(sorted(&two), ["Listed new 1", "Listed old 1"], "kept: {is_kept}");
        gadget(&lab, "newest", 1).await;
        assert_eq!((one.take(), two.take()), (vec![], vec!["Added newest 1".to_owned()]));
    }
}
