//! Tests that every call to the disk may fail once, and that the power may fail at every call: nothing acknowledged is
//! lost, nothing incomplete is visible, and the store starts again.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::Revision;
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Error, Limits, Store, Txn};

use crate::contract::{contents, key, pods, put};
use crate::simulated::{Fault, Left, Simulated};

/// Small files and little history, so that a short script rotates and checkpoints several times.
fn small() -> Config {
    Config {
        history: Limits { bytes: 4_000, ..Limits::default() },
        segment_bytes: 3_000,
        checkpoint_bytes: 5_000,
        ..Config::default()
    }
}

const COMMITS: u64 = 60;
/// With this configuration and script, more log files mean that a checkpoint is due.
const LOGS_MAX: usize = 5;

/// Returns the transaction of revision `number`; values span sectors, and some commits have several steps or delete
/// keys.
fn script(number: u64) -> Txn {
    use homeostat_store::{Expect, Op};
    let name = (number % 5).to_string();
    let mut txn =
        put(&name, &format!("{number}-{}", "x".repeat(usize::try_from(number * 37 % 900).expect("small"))));
    if number.is_multiple_of(4) {
        txn.steps.extend(put(&format!("{name}-pair"), &number.to_string()).steps);
    }
    if number.is_multiple_of(7) {
        txn.steps.push((key("0-pair"), Expect::Any, Op::Delete));
    }
    txn
}

/// Returns the contents after each revision, from 0.
async fn states() -> Vec<BTreeMap<String, String>> {
    let store = homeostat_store::Memory::new();
    let mut states = vec![BTreeMap::new()];
    for number in 1..=COMMITS + 1 {
        store.commit(script(number)).await.expect("memory takes everything");
        states.push(contents(&store.snapshot(), &pods()));
    }
    states
}

/// Runs the script from the current revision of the store until it finishes or fails; returns the last acknowledged
/// revision.
async fn run(store: &Disk, files: &Simulated) -> Result<Revision, (Revision, Error)> {
    let mut acknowledged = store.snapshot().revision();
    while acknowledged < Revision::new(COMMITS) {
        match store.commit(script(acknowledged.get() + 1)).await {
            Ok(done) => acknowledged = done.revision,
            Err(error) => return Err((acknowledged, error)),
        }
        files.let_checkpoint_finish(LOGS_MAX).await;
    }
    Ok(acknowledged)
}

#[track_caller]
fn check_state(store: &Disk, states: &[BTreeMap<String, String>], acknowledged: Revision, what: &str) {
    let snapshot = store.snapshot();
    let revision = snapshot.revision();
    assert!(revision >= acknowledged, "{what}: {acknowledged} was acknowledged, {revision} is there");
    assert!(revision <= acknowledged.next(), "{what}: more is there than was asked");
    let index = usize::try_from(revision.get()).expect("small");
    assert_eq!(contents(&snapshot, &pods()), states[index], "{what}: state at {revision}");
}

/// Reopens the remaining files, checks it, and finishes the script on it.
async fn check_left(
    files: &Simulated,
    left: Left,
    acknowledged: Revision,
    states: &[BTreeMap<String, String>],
) {
    let what = format!("{left:?} after {acknowledged}");
    let after = files.after(left);
    let store =
        Disk::open_on(Arc::new(after.clone()), &small()).unwrap_or_else(|error| panic!("{what}: {error}"));
    check_state(&store, states, acknowledged, &what);
    run(&store, &after).await.unwrap_or_else(|(_, error)| panic!("{what}: {error}"));
    check_state(&store, states, Revision::new(COMMITS), &what);
    drop(store);
    let durable = Disk::open_on(Arc::new(after.after(Left::Synced)), &small());
    let durable = durable.unwrap_or_else(|error| panic!("{what}, then a power cut: {error}"));
    check_state(&durable, states, Revision::new(COMMITS), &what);
}

const LEFT: [Left; 6] =
    [Left::Everything, Left::Synced, Left::Torn(1), Left::Torn(2), Left::Torn(3), Left::Torn(4)];

/// Returns the number of calls in one undisturbed run, from an empty folder until the store is closed. Checkpoints are
/// written by a separate thread, so runs differ; one with a checkpoint is used.
async fn calls_of_a_run() -> usize {
    for _ in 0..100 {
        let files = Simulated::default();
        let store = Disk::open_on(Arc::new(files.clone()), &small()).expect("an empty folder opens");
        run(&store, &files).await.expect("nothing fails");
        store.close().await;
        if files.files().keys().any(|name| name.starts_with("checkpoint-")) {
            return files.calls();
        }
    }
    panic!("the script must be long enough for a checkpoint")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_at_every_call() {
    let states = states().await;
    for at in 0..=calls_of_a_run().await {
        let files = Simulated::default().with_fault(Fault::PowerCut(at));
        let acknowledged = match Disk::open_on(Arc::new(files.clone()), &small()) {
            Ok(store) => run(&store, &files).await.unwrap_or_else(|(acknowledged, _)| acknowledged),
            Err(_) => Revision::ZERO,
        };
        for left in LEFT {
            check_left(&files, left, acknowledged, &states).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_again_at_every_call_of_the_start() {
    let states = states().await;
    let first = Simulated::default().with_fault(Fault::PowerCut(calls_of_a_run().await * 2 / 3));
    let store = Disk::open_on(Arc::new(first.clone()), &small()).expect("an empty folder opens");
    let (acknowledged, _) = run(&store, &first).await.expect_err("the power goes before the end");
    drop(store);
    for seed in 0..8 {
        let left = first.after(Left::Torn(seed)).files();
        let reopened = Simulated::of(left.clone());
        let revision =
            Disk::open_on(Arc::new(reopened.clone()), &small()).expect("it opens").snapshot().revision();
        for at in 0..=reopened.calls() {
            let files = Simulated::of(left.clone()).with_fault(Fault::PowerCut(at));
            // The store may open or not; in either case the next start must find everything.
            let opened = Disk::open_on(Arc::new(files.clone()), &small());
            assert!(opened.is_ok() || at < reopened.calls());
            drop(opened);
            for left in LEFT {
                let store =
                    Disk::open_on(Arc::new(files.after(left)), &small()).expect("the second start succeeds");
                assert_eq!(store.snapshot().revision(), revision, "cut at {at}, {left:?}");
                check_state(&store, &states, acknowledged, "after the second start");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_fails_once() {
    let states = states().await;
    let mut read_only = 0;
    for at in 1..=calls_of_a_run().await {
        for fault in [Fault::Fails(at), Fault::FailsHalfDone(at)] {
            let files = Simulated::default().with_fault(fault);
            let Ok(store) = Disk::open_on(Arc::new(files.clone()), &small()) else {
                check_left(&files, Left::Everything, Revision::ZERO, &states).await;
                continue;
            };
            let acknowledged = match run(&store, &files).await {
                Ok(acknowledged) => acknowledged,
                Err((acknowledged, error)) => {
                    read_only += 1;
                    check_read_only(&store, acknowledged, &error, &states).await;
                    acknowledged
                }
            };
            drop(store);
            for left in LEFT {
                check_left(&files, left, acknowledged, &states).await;
            }
        }
    }
    assert!(read_only > 0, "some call must have been to the log");
}

/// After a failure, reads continue, writes never succeed again, and nothing of the failed batch is visible.
async fn check_read_only(
    store: &Disk,
    acknowledged: Revision,
    error: &Error,
    states: &[BTreeMap<String, String>],
) {
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(error.to_string().contains("restart"), "{error}");
    assert!(matches!(store.check(), Err(Error::ReadOnly { .. })), "health checks hear of it");
    for _ in 0..3 {
        let again = store.commit(script(acknowledged.get() + 1)).await;
        assert!(matches!(again, Err(Error::ReadOnly { .. })), "a later success proves nothing");
    }
    assert_eq!(store.snapshot().revision(), acknowledged, "what failed is not seen");
    check_state(store, states, acknowledged, "read-only");
    let mut watch = store.watch(&pods(), acknowledged).expect("the newest revision is kept");
    assert!(watch.try_next().expect("it is not cut off").is_empty());
}

/// In a file of the usual size, space is allocated in advance, without a separate sync. If that fails, the existing
/// space is used first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_or_a_call_fails_while_room_is_made() {
    const LARGE_COMMITS: u64 = 40;
    let value = |number: u64| format!("{number}-{}", "x".repeat(5_000));
    let write = async |files: &Simulated| {
        let mut acknowledged = 0;
        if let Ok(store) = Disk::open_on(Arc::new(files.clone()), &Config::default()) {
            while acknowledged < LARGE_COMMITS
                && store.commit(put(&(acknowledged + 1).to_string(), &value(acknowledged + 1))).await.is_ok()
            {
                acknowledged += 1;
            }
        }
        acknowledged
    };
    let undisturbed = Simulated::default();
    assert_eq!(write(&undisturbed).await, LARGE_COMMITS);
    let calls = undisturbed.calls();
    let most = 4 * usize::try_from(LARGE_COMMITS).expect("small");
    assert!(calls < most, "a commit is a write, a sync and a note, and room is made rarely");
    let mut tolerated = 0;
    for fault in (0..=calls).flat_map(|at| [Fault::PowerCut(at), Fault::Fails(at + 1)]) {
        let files = Simulated::default().with_fault(fault);
        let acknowledged = write(&files).await;
        let is_failure = matches!(fault, Fault::Fails(at) if at <= calls);
        tolerated += u64::from(is_failure && acknowledged == LARGE_COMMITS);
        for left in LEFT {
            let store = Disk::open_on(Arc::new(files.after(left)), &Config::default())
                .unwrap_or_else(|error| panic!("{fault:?}, {left:?}: {error}"));
            let found = contents(&store.snapshot(), &pods());
            let count = found.len() as u64;
            assert!((acknowledged..=acknowledged + 1).contains(&count), "{fault:?}, {left:?}: {count}");
            let named = |number: u64| key(&number.to_string()).as_str().to_owned();
            let expected = (1..=count).map(|number| (named(number), value(number)));
            assert_eq!(found, expected.collect(), "{fault:?}, {left:?}");
        }
    }
    assert!(tolerated > 2, "room that is not needed yet may wait, not only the note at the end (two calls)");
}

#[tokio::test]
async fn a_refused_start_leaves_no_file_that_takes_room() {
    let undisturbed = Simulated::default();
    drop(Disk::open_on(Arc::new(undisturbed.clone()), &Config::default()).expect("an empty folder opens"));
    let mut refused = 0;
    for at in 1..=undisturbed.calls() {
        let files = Simulated::default().with_fault(Fault::FailsHalfDone(at));
        if Disk::open_on(Arc::new(files.clone()), &Config::default()).is_err() {
            refused += 1;
            let names = files.files().into_keys().collect::<Vec<_>>();
            assert!(!names.iter().any(|name| name.ends_with(".unfinished")), "call {at}: {names:?}");
        }
    }
    assert!(refused > 3, "creating, writing, making room, syncing and renaming can each fail");
}

#[tokio::test]
async fn a_store_on_a_full_disk_starts_again_and_is_read() {
    let files = Simulated::default().with_fault(Fault::Full(100));
    let store = Disk::open_on(Arc::new(files.clone()), &Config::default()).expect("an empty folder opens");
    let mut acknowledged = 0;
    let error = loop {
        match store.commit(put(&acknowledged.to_string(), &"x".repeat(5_000))).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let expected = contents(&store.snapshot(), &pods());
    assert_eq!(expected.len(), acknowledged);
    drop(store);
    let mut again = files;
    for _ in 0..100 {
        again = again.after(Left::Everything).with_fault(Fault::Full(0));
        let store =
            Disk::open_on(Arc::new(again.clone()), &Config::default()).expect("a start takes no room");
        assert_eq!(contents(&store.snapshot(), &pods()), expected);
        store.close().await;
    }
    let again = again.after(Left::Everything).with_fault(Fault::Full(0));
    let store = Disk::open_on(Arc::new(again), &Config::default()).expect("a stop takes no room");
    let error = store.commit(put("more", &"x".repeat(50_000))).await.expect_err("there is no room");
    assert!(error.to_string().contains("make room"), "{error}");
}
