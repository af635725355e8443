//! Kills the operator between any two steps: before and after each request it sends, in each phase of an object's life.
//! Then another operator continues. Every handler finishes; none is called after its completion was recorded. Each life
//! has its own server, so there are too many servers to run each as a process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use homeostat::testing::InjectedFault;
use homeostat_core::Entropy;
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::HandlerContext;
use homeostat_runtime::handlers::options::HandlerDeclared;
use http::Method;
use serde_json::json;

use super::{Gadget, GadgetSpec, Made, get, lab, run, says, says_changes};
use crate::test_cluster::{Log, Running, TestCluster};

fn handlers(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    let (parent, second) = (log.clone(), log.clone());
    Handlers::<Gadget>::new()
        .on_create("first", says(log, "first"))
        .on_create("create", move |_: Arc<Gadget>, _: HandlerContext<Gadget>| {
            second.say("create");
            async { Ok(Made { name: "it".into() }) }
        })
        .on_create("parts", move |_: Arc<Gadget>, cx: HandlerContext<Gadget>| {
            for part in ["a", "b"] {
                let log = parent.clone();
                cx.sub(part, move |cx: HandlerContext<Gadget>| async move {
                    log.say(cx.id());
                    Ok(())
                });
            }
            async { Ok(()) }
        })
        .on_update("update", says_changes(log, "update"))
        .on_field("size", |gadget| gadget.spec.size, {
            let log = log.clone();
            move |size, _, _| {
                log.say(format!("size {}", size.new));
                async { Ok(()) }
            }
        })
        .on_delete("delete", says(log, "delete"))
        .on_delete("bury", says(log, "bury"))
}

/// What happens to the request at which the operator dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// It is never sent.
    Before,
    /// It is served, but the response is lost.
    After,
}

/// Dies at the `fatal`-th write from now on; returns how many writes there were.
fn doom(lab: &TestCluster, running: &Running, fatal: usize, death: Death) -> Arc<AtomicUsize> {
    let writes = Arc::new(AtomicUsize::new(0));
    let (count, victim) = (writes.clone(), Mutex::new(running.killer()));
    lab.faults.set(move |request| {
        if request.method() != Method::PATCH
            || !["gadgets", "secrets"].iter().any(|kind| request.uri().path().contains(kind))
        {
            return None;
        }
        (count.fetch_add(1, Ordering::Relaxed) == fatal).then(|| {
            victim.lock().unwrap().kill();
            match death {
                Death::Before => InjectedFault::Hang,
                Death::After => InjectedFault::Lost,
            }
        })
    });
    writes
}

/// What happens to an object, and what its handlers log without any crash.
const LIFE: [(&str, &[&str]); 3] = [
    ("create", &["first", "create", "parts/a", "parts/b", "size 1"]),
    ("update", &["update spec.size: 1 -> 2", "size 2"]),
    ("delete", &["delete", "bury"]),
];

/// A text that does not fit into an annotation.
const LONG: usize = 60_000;

async fn happen(lab: &TestCluster, what: &str, text: usize) {
    let text = Entropy::seeded(1).suffix(text);
    match what {
        "create" => {
            drop(lab.create(&Gadget::new("g", GadgetSpec { size: 1, text, ..GadgetSpec::default() })).await);
        }
        "update" => drop(lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await),
        _ => lab.delete::<Gadget>("g").await,
    }
    lab.pass(1).await;
}

/// Runs through a life in which the operator dies at the `fatal`-th write in one chapter; returns whether it died.
async fn live(chapter: usize, fatal: usize, death: Death, text: usize) -> bool {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, handlers(&log)).await;
    for (what, _) in &LIFE[..chapter] {
        happen(&lab, what, text).await;
    }
    log.take();
    let writes = doom(&lab, &running, fatal, death);
    let (what, expected) = LIFE[chapter];
    happen(&lab, what, text).await;
    let was_killed = writes.load(Ordering::Relaxed) > fatal;
    lab.faults.clear();
    run(&mut lab, handlers(&log)).await;
    lab.pass(60).await;
    judge(&log.take(), expected, (what, fatal, death));
    match what {
        "delete" => assert!(get(&lab, "g").await.is_none()),
        _ => assert_eq!(get(&lab, "g").await.unwrap().status.unwrap().create.unwrap().name, "it"),
    }
    was_killed
}

/// Checks that every handler ran, in order; only the last one before the crash may have run twice.
fn judge(said: &[String], expected: &[&str], death: impl std::fmt::Debug) {
    let mut once: Vec<&str> = said.iter().map(String::as_str).collect();
    let count = once.len();
    once.dedup();
    assert_eq!(once, expected, "{death:?} {said:?}");
    assert!(count <= expected.len() + 1, "{death:?} {said:?}");
}

/// Dies at every write in these chapters; returns the number of deaths.
async fn die(chapters: std::ops::Range<usize>, text: usize) -> usize {
    let mut deaths = 0;
    for chapter in chapters {
        for death in [Death::Before, Death::After] {
            let mut fatal = 0;
            while live(chapter, fatal, death, text).await {
                fatal += 1;
            }
            assert!(fatal > 0, "the chapter has writes to die at");
            deaths += fatal;
        }
    }
    deaths
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_and_nothing_recorded_is_repeated() {
    let deaths = die(0..LIFE.len(), 0).await;
    // The writes are the finalizer, the result, the completion of each handler and sub-handler, and the finalizer
    // again.
    assert!(deaths >= 2 * (7 + 2 + 2), "{deaths}");
}

#[tokio::test(start_paused = true)]
async fn nor_with_a_record_beside_the_object() {
    let deaths = die(1..2, LONG).await;
    assert!(deaths >= 2 * (2 + 2), "{deaths}: a Secret and an annotation for each handler");
}
