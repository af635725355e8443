//! Tests what every [`Store`] promises, using only the trait.
//!
//! A new implementation provides a [`Subject`] and calls [`suite!`]; nothing else is required of a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::{Committed, Error, Event, Expect, Limits, Op, SharedStore, Snapshot, Txn, Value};

/// Creates the store under test.
pub(crate) trait Subject {
    /// Returns an empty store with this history.
    fn open(&self, limits: Limits) -> SharedStore;
}

/// One test per promise, on a multi-threaded runtime.
macro_rules! suite {
    ($subject:expr) => {
        $crate::contract::suite!(@ $subject;
            revisions_start_above_zero_and_grow_by_one,
            an_expectation_that_fails_changes_nothing,
            a_key_that_could_not_be_read_back_is_refused,
            a_transaction_is_all_or_nothing,
            a_transaction_without_effect_takes_no_revision,
            the_hole_is_filled_with_the_revision,
            a_snapshot_does_not_move,
            a_range_is_ordered_and_resumes,
            a_watch_sees_everything_after_its_start,
            a_watch_from_the_future_waits_for_it,
            a_watch_sees_its_prefix_only,
            watches_of_a_resource_are_counted_and_its_events_are_not,
            a_commit_is_delivered_whole,
            an_acknowledged_write_is_seen_at_once,
            progress_moves_with_other_resources,
            a_watch_resumes_from_any_revision_kept,
            concurrent_writers_leave_no_gap,
            a_read_during_writes_is_the_state_of_its_revision,
            compare_and_swap_has_one_winner,
            compaction_forgets_the_past_only,
            a_slow_watcher_is_cut_off_alone,
            the_past_equals_its_replay,
            paging_is_consistent_while_others_write,
            a_closed_store_refuses_writes_and_ends_watches,
        );
    };
    (@ $subject:expr; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::contract::$name(&$subject).await;
            }
        )*
    };
}
pub(crate) use suite;

/// The history for tests that do not concern its bounds.
pub(crate) fn ample() -> Limits {
    Limits::default()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("", "pods", "default", name)
}

pub(crate) fn pods() -> Prefix {
    Prefix::resource("", "pods")
}

pub(crate) fn put(name: &str, text: &str) -> Txn {
    Txn::one(key(name), Expect::Any, Op::Put(Value::plain(text.to_owned())))
}

fn delete(name: &str) -> Txn {
    Txn::one(key(name), Expect::Any, Op::Delete)
}

pub(crate) async fn commit(store: &SharedStore, txn: Txn) -> Committed {
    store.commit(txn).await.expect("nothing forbids this commit")
}

/// Returns the key and text of every entry in a snapshot.
pub(crate) fn contents(snapshot: &Snapshot, prefix: &Prefix) -> BTreeMap<String, String> {
    snapshot
        .range(prefix, "")
        .map(|entry| (entry.key.as_str().to_owned(), String::from_utf8_lossy(&entry.bytes).into_owned()))
        .collect()
}

/// Formats an event as one line: revision, what happened, key, old and new text.
pub(crate) fn line(event: &Event) -> String {
    let text = |entry: &Option<Arc<homeostat_store::Entry>>| {
        entry.as_ref().map_or("-".to_owned(), |entry| String::from_utf8_lossy(&entry.bytes).into_owned())
    };
    format!("{} {} {}>{}", event.revision, event.key.name(), text(&event.old), text(&event.new))
}

/// Replays events over a map.
fn replay(map: &mut BTreeMap<String, String>, event: &Event) {
    let key = event.key.as_str().to_owned();
    match &event.new {
        Some(new) => map.insert(key, String::from_utf8_lossy(&new.bytes).into_owned()),
        None => map.remove(&key),
    };
}

pub(crate) async fn revisions_start_above_zero_and_grow_by_one(subject: &impl Subject) {
    let store = subject.open(ample());
    assert_eq!(store.snapshot().revision(), Revision::ZERO);
    for expected in 1..=3 {
        assert_eq!(commit(&store, put("a", "x")).await.revision, Revision::new(expected));
        assert_eq!(store.snapshot().revision(), Revision::new(expected));
    }
}

pub(crate) async fn an_expectation_that_fails_changes_nothing(subject: &impl Subject) {
    let store = subject.open(ample());
    let first = commit(&store, put("a", "1")).await.revision;
    let at = |expect| Txn::one(key("a"), expect, Op::Put(Value::plain("2")));
    for expect in [Expect::Absent, Expect::At(first.next()), Expect::At(Revision::ZERO)] {
        let error = store.commit(at(expect)).await.expect_err("the expectation is false");
        assert!(matches!(error, Error::Conflict { actual, .. } if actual == first), "{error}");
    }
    let absent = Txn::one(key("b"), Expect::At(Revision::ZERO), Op::Check);
    assert!(matches!(store.commit(absent).await, Err(Error::Conflict { .. })));
    assert_eq!(store.snapshot().revision(), first);
    assert_eq!(commit(&store, at(Expect::At(first))).await.revision, first.next());
}

/// A name with a slash was once stored, and the next start considered the folder damaged.
pub(crate) async fn a_key_that_could_not_be_read_back_is_refused(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut txn = put("a", "1");
    txn.steps.push((Key::new("", "pods", "default", "b/c"), Expect::Any, Op::Put(Value::plain("2"))));
    let refused = store.commit(txn).await.expect_err("it has five segments");
    assert!(matches!(&refused, Error::BadKey { key } if key.as_str() == "/pods/default/b/c"), "{refused}");
    assert_eq!(store.snapshot().revision(), Revision::ZERO);
    assert!(store.snapshot().is_empty());
}

pub(crate) async fn a_transaction_is_all_or_nothing(subject: &impl Subject) {
    let store = subject.open(ample());
    let held = commit(&store, put("held", "1")).await.revision;
    let step = |name: &str, expect, op| (key(name), expect, op);
    let both = |expect| Txn {
        steps: vec![
            step("new", Expect::Absent, Op::Put(Value::plain("2"))),
            step("held", expect, Op::Delete),
        ],
    };
    assert!(store.commit(both(Expect::Absent)).await.is_err());
    assert_eq!(contents(&store.snapshot(), &pods()), [("/pods/default/held".into(), "1".into())].into());
    let done = commit(&store, both(Expect::At(held))).await;
    assert_eq!(done.revision, held.next());
    assert_eq!(done.entries[0].as_ref().map(|entry| entry.revision), Some(done.revision));
    assert!(done.entries[1].is_none());
    assert_eq!(contents(&store.snapshot(), &pods()), [("/pods/default/new".into(), "2".into())].into());
}

pub(crate) async fn a_transaction_without_effect_takes_no_revision(subject: &impl Subject) {
    let store = subject.open(ample());
    let before = commit(&store, put("a", "1")).await.revision;
    let nothing = Txn {
        steps: vec![(key("a"), Expect::At(before), Op::Check), (key("b"), Expect::Absent, Op::Delete)],
    };
    assert_eq!(commit(&store, nothing).await.revision, before);
    assert_eq!(commit(&store, Txn::default()).await.revision, before);
    assert_eq!(store.snapshot().revision(), before);
}

pub(crate) async fn the_hole_is_filled_with_the_revision(subject: &impl Subject) {
    let store = subject.open(ample());
    commit(&store, put("other", "x")).await;
    let value = Value { hole: Some(3), ..Value::plain("rv=.") };
    commit(&store, Txn::one(key("a"), Expect::Absent, Op::Put(value))).await;
    let snapshot = store.snapshot();
    let entry = snapshot.get(&key("a")).expect("it was just stored");
    assert_eq!((&entry.bytes[..], entry.digits), (&b"rv=2."[..], Some((3, 4))));
}

pub(crate) async fn a_snapshot_does_not_move(subject: &impl Subject) {
    let store = subject.open(ample());
    commit(&store, put("a", "1")).await;
    let before = store.snapshot();
    commit(&store, put("a", "2")).await;
    commit(&store, put("b", "1")).await;
    assert_eq!(contents(&before, &pods()), [("/pods/default/a".into(), "1".into())].into());
    assert_eq!((before.len(), store.snapshot().len()), (1, 2));
}

pub(crate) async fn a_range_is_ordered_and_resumes(subject: &impl Subject) {
    let store = subject.open(ample());
    for name in ["c", "a", "d", "b"] {
        commit(&store, put(name, name)).await;
    }
    let elsewhere = Key::new("", "podsets", "default", "x");
    commit(&store, Txn::one(elsewhere, Expect::Any, Op::Put(Value::plain("x")))).await;
    let snapshot = store.snapshot();
    let names = |after: &str| {
        snapshot.range(&pods(), after).map(|entry| entry.key.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["a", "b", "c", "d"]);
    assert_eq!(names("/pods/default/b"), ["c", "d"]);
}

pub(crate) async fn a_watch_sees_everything_after_its_start(subject: &impl Subject) {
    let store = subject.open(ample());
    commit(&store, put("a", "1")).await;
    let mut watch = store.watch(&pods(), Revision::new(1)).expect("revision 1 is kept");
    let mut whole = store.watch(&pods(), Revision::ZERO).expect("all history is kept");
    commit(&store, put("a", "2")).await;
    commit(&store, delete("a")).await;
    let lines = |events: Vec<Arc<Event>>| events.iter().map(|event| line(event)).collect::<Vec<_>>();
    assert_eq!(lines(watch.next().await.expect("events wait")), ["2 a 1>2", "3 a 2>-"]);
    assert_eq!(lines(whole.next().await.expect("events wait")), ["1 a ->1", "2 a 1>2", "3 a 2>-"]);
    assert!(watch.try_next().expect("it is not cut off").is_empty());
}

pub(crate) async fn a_watch_from_the_future_waits_for_it(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut watch = store.watch(&pods(), Revision::new(2)).expect("the future is fine");
    for text in ["1", "2", "3"] {
        commit(&store, put("a", text)).await;
    }
    assert_eq!(line(&watch.next().await.expect("one event is new enough")[0]), "3 a 2>3");
    assert!(matches!(store.snapshot_at(Revision::new(4)), Err(Error::Future { .. })));
}

pub(crate) async fn a_watch_sees_its_prefix_only(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut watch = store.watch(&Prefix::namespace("", "pods", "default"), Revision::ZERO).expect("kept");
    for (resource, namespace) in [("pods", "default"), ("pods", "default-2"), ("services", "default")] {
        let key = Key::new("", resource, namespace, "a");
        commit(&store, Txn::one(key, Expect::Any, Op::Put(Value::plain("1")))).await;
    }
    let events = watch.next().await.expect("one event matches");
    assert_eq!(
        events.iter().map(|event| event.key.as_str().to_owned()).collect::<Vec<_>>(),
        ["/pods/default/a"]
    );
    assert_eq!(watch.progress(), Revision::new(3));
}

pub(crate) async fn watches_of_a_resource_are_counted_and_its_events_are_not(subject: &impl Subject) {
    let store = subject.open(ample());
    let watch = store.watch(&pods(), Revision::ZERO).expect("all history is kept");
    for text in ["1", "2", "3"] {
        commit(&store, put("a", text)).await;
    }
    let other = store.watch(&pods(), Revision::ZERO).expect("all history is kept");
    assert_eq!(watch.companions(), 2);
    drop(other);
    assert_eq!(watch.companions(), 1);
}

pub(crate) async fn a_commit_is_delivered_whole(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut watch = store.watch(&pods(), Revision::ZERO).expect("kept");
    let steps_each = 100;
    for commit_index in 0..10 {
        let step = |index| {
            let value = Op::Put(Value::plain(commit_index.to_string()));
            (key(&format!("{index:03}")), Expect::Any, value)
        };
        commit(&store, Txn { steps: (0..steps_each).map(step).collect() }).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 10 * steps_each {
        let events = watch.next().await.expect("events wait");
        assert_eq!(events.len() % steps_each, 0, "a batch ends with a commit");
        assert_eq!(Some(watch.progress()), events.last().map(|event| event.revision));
        seen.extend(events);
    }
    assert!(seen.is_sorted_by_key(|event| event.revision));
}

pub(crate) async fn an_acknowledged_write_is_seen_at_once(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut watch = store.watch(&pods(), Revision::ZERO).expect("kept");
    for index in 0..50 {
        let done = commit(&store, put("a", &index.to_string())).await;
        let events = watch.try_next().expect("it is not cut off");
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].revision, watch.progress()), (done.revision, done.revision));
        assert_eq!(store.snapshot().revision(), done.revision);
    }
}

pub(crate) async fn progress_moves_with_other_resources(subject: &impl Subject) {
    let store = subject.open(ample());
    let watch = store.watch(&pods(), Revision::ZERO).expect("kept");
    let elsewhere = Key::new("", "services", "default", "a");
    let done = commit(&store, Txn::one(elsewhere, Expect::Any, Op::Put(Value::plain("1")))).await;
    assert_eq!(watch.progress(), done.revision);
    commit(&store, put("a", "1")).await;
    assert_eq!(watch.progress(), done.revision, "an undelivered event holds it back");
}

pub(crate) async fn concurrent_writers_leave_no_gap(subject: &impl Subject) {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 100;
    let store = subject.open(ample());
    let follow = |store: &SharedStore| {
        let mut watch = store.watch(&pods(), Revision::ZERO).expect("kept");
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while (seen.len() as u64) < WRITERS * WRITES {
                seen.extend(watch.next().await.expect("it keeps up"));
            }
            seen.iter().map(|event| event.revision.get()).collect::<Vec<_>>()
        })
    };
    let followers = [follow(&store), follow(&store), follow(&store)];
    let writers: Vec<_> = (0..WRITERS).map(|writer| write_many(&store, writer, WRITES)).collect();
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    for follower in followers {
        let revisions = follower.await.expect("a follower does not panic");
        assert_eq!(revisions, (1..=WRITERS * WRITES).collect::<Vec<_>>());
    }
}

fn write_many(store: &SharedStore, writer: u64, count: u64) -> tokio::task::JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let mut last = Revision::ZERO;
        for index in 0..count {
            let done = commit(&store, put(&format!("{writer}-{}", index % 7), &index.to_string())).await;
            assert!(done.revision > last, "a later write has a later revision");
            last = done.revision;
        }
    })
}

pub(crate) async fn a_watch_resumes_from_any_revision_kept(subject: &impl Subject) {
    let store = subject.open(Limits { bytes: 10_000, ..ample() });
    let mut whole = store.watch(&pods(), Revision::ZERO).expect("kept");
    let mut seen = Vec::new();
    for index in 0..60_u64 {
        commit(&store, put(&(index % 3).to_string(), &"x".repeat(200))).await;
        seen.extend(whole.try_next().expect("it keeps up"));
    }
    let mut resumed = 0;
    for from in (0..=60).map(Revision::new) {
        let expected: Vec<_> =
            seen.iter().filter(|event| event.revision > from).map(|event| line(event)).collect();
        match store.watch(&pods(), from) {
            Ok(mut watch) => {
                let events = watch.try_next().expect("it was kept a moment ago");
                assert_eq!(
                    events.iter().map(|event| line(event)).collect::<Vec<_>>(),
                    expected,
                    "from {from}"
                );
                resumed += 1;
            }
            Err(Error::Compacted { oldest, .. }) => assert!(from < oldest),
            Err(error) => panic!("{error}"),
        }
    }
    assert!((2..60).contains(&resumed), "some are kept, some are not: {resumed}");
}

/// Checks that reads are linearizable, using revisions: a read shows exactly the state of its revision, and that
/// revision is at least as new as every write acknowledged before the read began.
pub(crate) async fn a_read_during_writes_is_the_state_of_its_revision(subject: &impl Subject) {
    const WRITERS: u64 = 4;
    const WRITES: u64 = 60;
    let store = subject.open(ample());
    let writers: Vec<_> = (0..WRITERS).map(|writer| write_many(&store, writer, WRITES)).collect();
    let mut reads = Vec::new();
    while store.snapshot().revision() < Revision::new(WRITERS * WRITES) {
        let acknowledged = commit(&store, Txn::default()).await.revision;
        let snapshot = store.snapshot();
        assert!(snapshot.revision() >= acknowledged);
        reads.push(snapshot);
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    let mut watch = store.watch(&pods(), Revision::ZERO).expect("kept");
    let mut replayed = BTreeMap::new();
    let mut states = vec![BTreeMap::new()];
    while (states.len() as u64) <= WRITERS * WRITES {
        for event in watch.next().await.expect("events wait") {
            replay(&mut replayed, &event);
            states.push(replayed.clone());
        }
    }
    for read in reads {
        let index = usize::try_from(read.revision().get()).expect("small");
        assert_eq!(contents(&read, &pods()), states[index], "revision {}", read.revision());
    }
}

pub(crate) async fn compare_and_swap_has_one_winner(subject: &impl Subject) {
    const WRITERS: usize = 8;
    const INCREMENTS: usize = 25;
    let store = subject.open(ample());
    commit(&store, put("counter", "0")).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..INCREMENTS {
                    increment(&store).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    let total = &contents(&store.snapshot(), &pods())["/pods/default/counter"];
    assert_eq!(*total, (WRITERS * INCREMENTS).to_string());
}

/// Reads, adds one, writes; starts over after a conflict.
async fn increment(store: &SharedStore) {
    loop {
        let snapshot = store.snapshot();
        let entry = snapshot.get(&key("counter")).expect("it exists");
        let text = std::str::from_utf8(&entry.bytes).expect("it is text");
        let next = text.parse::<u64>().expect("it is a number") + 1;
        let op = Op::Put(Value::plain(next.to_string()));
        match store.commit(Txn::one(key("counter"), Expect::At(entry.revision), op)).await {
            Ok(_) => return,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn compaction_forgets_the_past_only(subject: &impl Subject) {
    let store = subject.open(ample());
    for text in ["1", "2", "3", "4"] {
        commit(&store, put("a", text)).await;
    }
    let mut behind = store.watch(&pods(), Revision::new(1)).expect("kept so far");
    store.compact(Revision::new(3)).await.expect("the past can be forgotten");
    let compacted = |result: Result<_, Error>| matches!(result, Err(Error::Compacted { oldest, .. }) if oldest == Revision::new(3));
    assert!(compacted(store.watch(&pods(), Revision::new(2)).map(|_| ())));
    assert!(compacted(store.snapshot_at(Revision::new(2)).map(|_| ())));
    assert!(compacted(behind.next().await.map(|_| ())));
    let mut watch = store.watch(&pods(), Revision::new(3)).expect("kept");
    assert_eq!(line(&watch.next().await.expect("one is left")[0]), "4 a 3>4");
    let at = store.snapshot_at(Revision::new(3)).expect("the floor itself can be read");
    assert_eq!(contents(&at, &pods())["/pods/default/a"], "3");
    assert!(matches!(store.compact(Revision::new(9)).await, Err(Error::Future { .. })));
}

pub(crate) async fn a_slow_watcher_is_cut_off_alone(subject: &impl Subject) {
    let store = subject.open(Limits { bytes: 20_000, age: Duration::from_mins(5) });
    let mut slow = store.watch(&pods(), Revision::ZERO).expect("kept");
    let mut quick = store.watch(&pods(), Revision::ZERO).expect("kept");
    let mut quiet = store.watch(&Prefix::resource("", "services"), Revision::ZERO).expect("kept");
    for index in 0..200 {
        commit(&store, put("a", &"x".repeat(1000))).await;
        assert_eq!(quick.try_next().expect("it keeps up").len(), 1, "write {index}");
    }
    assert!(matches!(slow.next().await, Err(Error::Compacted { .. })));
    assert!(quiet.try_next().expect("nothing of its resource was forgotten").is_empty());
    assert!(matches!(store.watch(&pods(), Revision::new(1)), Err(Error::Compacted { .. })));
}

pub(crate) async fn the_past_equals_its_replay(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut watch = store.watch(&pods(), Revision::ZERO).expect("kept");
    for index in 0..120_u64 {
        let name = (index * 7 % 11).to_string();
        let txn = if index % 3 == 2 { delete(&name) } else { put(&name, &index.to_string()) };
        commit(&store, txn).await;
    }
    let mut expected = BTreeMap::new();
    for event in watch.next().await.expect("events wait") {
        replay(&mut expected, &event);
        let past = store.snapshot_at(event.revision).expect("all history is kept");
        assert_eq!((past.revision(), contents(&past, &pods())), (event.revision, expected.clone()));
    }
    assert_eq!(contents(&store.snapshot(), &pods()), expected);
}

pub(crate) async fn paging_is_consistent_while_others_write(subject: &impl Subject) {
    // The history is too short to roll back: only the pinned snapshot can serve the read.
    let store = subject.open(Limits { bytes: 5_000, age: Duration::from_mins(5) });
    for index in 0..20 {
        commit(&store, put(&format!("{index:02}"), "before")).await;
    }
    let first = store.snapshot();
    store.pin(&first);
    let mut after = String::new();
    let mut pages = Vec::new();
    while let Some(last) = {
        let page = store.snapshot_at(first.revision()).expect("it is pinned");
        pages.extend(page.range(&pods(), &after).take(3).map(Arc::clone));
        pages
            .last()
            .filter(|last| last.key.as_str() > after.as_str())
            .map(|last| last.key.as_str().to_owned())
    } {
        after = last;
        for index in 0..20 {
            commit(&store, put(&format!("{index:02}"), &"after".repeat(100))).await;
        }
    }
    assert_eq!(pages.len(), 20);
    assert!(pages.iter().all(|entry| &entry.bytes[..] == b"before"));
}

pub(crate) async fn a_closed_store_refuses_writes_and_ends_watches(subject: &impl Subject) {
    let store = subject.open(ample());
    let mut waiting = store.watch(&pods(), Revision::ZERO).expect("kept");
    let ended = tokio::spawn(async move {
        let first = waiting.next().await.map(|events| events.len());
        (first, waiting.next().await)
    });
    commit(&store, put("a", "1")).await;
    store.close().await;
    store.close().await;
    let (first, second) = ended.await.expect("the watcher does not panic");
    assert_eq!(first.expect("what was committed is delivered"), 1);
    assert!(matches!(second, Err(Error::Closed)));
    assert!(matches!(store.commit(put("a", "2")).await, Err(Error::Closed)));
    assert_eq!(contents(&store.snapshot(), &pods()).len(), 1, "reads go on");
}
