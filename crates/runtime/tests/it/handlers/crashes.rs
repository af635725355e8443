//! Killed between any two steps: before and after each request an operator sends, in each phase of an object's life.
//! Afterwards another one goes on. Every handler is through; none was called after its end had been recorded.
//! Each life has a server of its own: where that is a process, there are too many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use homeostat::testing::InjectedFault;
use homeostat_core::Entropy;
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::Turn;
use homeostat_runtime::handlers::options::Handler;
use http::Method;
use serde_json::json;

use super::{Gadget, GadgetSpec, Made, get, lab, run, says, says_changes};
use crate::lab::{Lab, Log, Running};

fn handlers(log: &Log) -> Handlers<Gadget, Handler> {
    let (parent, second) = (log.clone(), log.clone());
    Handlers::<Gadget>::new()
        .on_create("first", says(log, "first"))
        .on_create("create", move |_: Arc<Gadget>, _: Turn<Gadget>| {
            second.say("create");
            async { Ok(Made { name: "it".into() }) }
        })
        .on_create("parts", move |_: Arc<Gadget>, cx: Turn<Gadget>| {
            for part in ["a", "b"] {
                let log = parent.clone();
                cx.sub(part, move |cx: Turn<Gadget>| async move {
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

/// How the request at which the operator dies ends.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// It was never sent.
    Before,
    /// It was served, and nobody heard.
    After,
}

/// Dies at the `fatal`-th write from now on; returns how many writes there were.
fn doom(lab: &Lab, running: &Running, fatal: usize, death: Death) -> Arc<AtomicUsize> {
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

/// What happens to an object, and what its handlers say without any crash.
const LIFE: [(&str, &[&str]); 3] = [
    ("create", &["first", "create", "parts/a", "parts/b", "size 1"]),
    ("update", &["update spec.size: 1 -> 2", "size 2"]),
    ("delete", &["delete", "bury"]),
];

/// A text that does not fit into an annotation.
const LONG: usize = 60_000;

async fn happen(lab: &Lab, what: &str, text: usize) {
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

/// Lives a life in which the operator dies at the `fatal`-th write of one chapter; returns whether it came to that.
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

/// Everything was said, in order; the one thing that may be said twice is what was said last before the death.
fn judge(said: &[String], expected: &[&str], death: impl std::fmt::Debug) {
    let mut once: Vec<&str> = said.iter().map(String::as_str).collect();
    let count = once.len();
    once.dedup();
    assert_eq!(once, expected, "{death:?} {said:?}");
    assert!(count <= expected.len() + 1, "{death:?} {said:?}");
}

/// Dies at every write of these chapters; returns how many deaths that were.
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
    // The finalizer, the result, the end of each handler and part, the finalizer again.
    assert!(deaths >= 2 * (7 + 2 + 2), "{deaths}");
}

#[tokio::test(start_paused = true)]
async fn nor_with_a_record_beside_the_object() {
    let deaths = die(1..2, LONG).await;
    assert!(deaths >= 2 * (2 + 2), "{deaths}: a Secret and an annotation for each handler");
}
