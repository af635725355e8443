//! What the operators of this process are doing now: a fold over the journal into controllers, failures, watches,
//! worlds and alarms.
//!
//! **Invariant:** its memory is bounded whatever is recorded, and a record costs a few map operations under one lock:
//! it runs inside the writer.

mod controller;
mod hot_loops;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use homeostat_core::journal::{Change, Entry, FaultClass, Record, WatchState};
use serde::Serialize;
use serde_json::{Value, json};

use controller::ControllerActivity;
use hot_loops::HotLoops;

/// Failing objects that are remembered: more than anyone reads. The first ones stay, because they came first.
const FAILURES_MAX: usize = 2_000;

/// Controllers, watches and worlds that are remembered; an operator has a handful.
const NAMES_MAX: usize = 500;

/// The most letters of an error.
const ERROR_LETTERS_MAX: usize = 600;

/// What the operators of this process are doing.
#[derive(Default)]
pub struct Activity(Mutex<ActivityState>);

#[derive(Default)]
struct ActivityState {
    /// Rises with every record, so that readers know whether anything happened.
    records: u64,
    controllers: BTreeMap<String, ControllerActivity>,
    failures: BTreeMap<(Key, String), FailingObject>,
    watches: BTreeMap<(String, String), FailingWatch>,
    worlds: BTreeMap<String, WorldActivity>,
    hot: HotLoops,
}

/// An object that an operator cannot reconcile.
#[derive(Clone, Debug, Serialize)]
struct FailingObject {
    /// `failed`, `panicked`, `undecodable`.
    what: &'static str,
    error: String,
    /// Failed runs in a row.
    failures: u32,
    /// Since when, in milliseconds since 1970.
    since: i64,
    /// When it is tried again; `None` if it must change first.
    next: Option<i64>,
}

/// A watch that is cut off.
#[derive(Clone, Debug, Serialize)]
struct FailingWatch {
    error: String,
    since: i64,
}

/// The last pass over a world.
#[derive(Clone, Debug, Default, Serialize)]
struct WorldActivity {
    at: i64,
    things: u64,
    owned: u64,
    suspects: u64,
    leaks: u64,
    deleted: u64,
    withheld: Option<String>,
}

impl Activity {
    /// Takes a record in.
    pub fn observe(&self, record: &Record) {
        self.state().observe(record);
    }

    /// Returns how many records were taken in: it changes when something happened.
    pub(crate) fn records(&self) -> u64 {
        self.state().records
    }

    /// Returns what a viewer may see: what is about objects only where `is_visible`, the rest only if
    /// `may_see_operators`.
    pub(crate) fn view(
        &self,
        now_ms: i64,
        may_see_operators: bool,
        is_visible: impl Fn(&Key) -> bool,
    ) -> Value {
        let mut state = self.state();
        state.hot.close_window(now_ms);
        let failures = state.failures.iter().filter(|((key, _), _)| is_visible(key));
        let failures =
            failures.map(|((key, source), failure)| json!({"key": key, "by": source, "failure": failure}));
        let failures: Vec<Value> = failures.collect();
        let hot = state.hot.alarms().filter(|(key, ..)| is_visible(key));
        let hot = hot.map(|(key, source, rate)| json!({"key": key, "by": source, "perSecond": rate}));
        let hot: Vec<Value> = hot.collect();
        if !may_see_operators {
            return json!({"failures": failures, "hot": hot});
        }
        let controllers = state.controllers.iter_mut();
        let controllers: Vec<Value> = controllers.map(|(name, one)| one.view(name, now_ms)).collect();
        let watches = state.watches.iter().map(
            |((source, resource), failing)| json!({"by": source, "resource": resource, "failing": failing}),
        );
        let watches: Vec<Value> = watches.collect();
        json!({"failures": failures, "hot": hot, "controllers": controllers, "watches": watches, "worlds": &state.worlds})
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActivityState {
    fn observe(&mut self, record: &Record) {
        self.records += 1;
        let (at, source) = (record.at.as_millisecond(), record.source.as_str());
        match &record.entry {
            Entry::Watched { resource, state } => self.observe_watch(source, resource, state, at),
            Entry::Surveyed { world, things, owned, suspects, leaks, deleted, withheld } => {
                let (things, owned, suspects) = (*things, *owned, *suspects);
                let pass = WorldActivity {
                    at,
                    things,
                    owned,
                    suspects,
                    leaks: *leaks,
                    deleted: *deleted,
                    withheld: withheld.clone(),
                };
                insert_bounded(&mut self.worlds, world.clone(), pass, NAMES_MAX);
            }
            Entry::Led { .. } => {}
            entry => {
                self.observe_failure(source, entry, at);
                if let Entry::Started { object, .. } = entry {
                    self.hot.observe(object, source, at);
                }
                if let Some(controller) = self.controller(source) {
                    controller.observe(entry, at);
                }
            }
        }
    }

    fn controller(&mut self, source: &str) -> Option<&mut ControllerActivity> {
        if !self.controllers.contains_key(source) {
            insert_bounded(
                &mut self.controllers,
                source.to_owned(),
                ControllerActivity::default(),
                NAMES_MAX,
            );
        }
        self.controllers.get_mut(source)
    }

    fn observe_watch(&mut self, source: &str, resource: &str, state: &WatchState, at: i64) {
        let name = (source.to_owned(), resource.to_owned());
        match state {
            WatchState::Failing { error, .. } => {
                let since = self.watches.get(&name).map_or(at, |failing| failing.since);
                let failing = FailingWatch { error: shorten(error), since };
                insert_bounded(&mut self.watches, name, failing, NAMES_MAX);
            }
            WatchState::Fresh => drop(self.watches.remove(&name)),
            WatchState::Listing => {}
        }
    }

    /// Notes that an object fails, or that it no longer does.
    fn observe_failure(&mut self, source: &str, entry: &Entry, at: i64) {
        let (object, what, error, failures, next) = match entry {
            Entry::Failed { object, error, fault, failures, .. } => {
                let after = |after: &std::time::Duration| {
                    at + i64::try_from(after.as_millis()).unwrap_or(i64::MAX / 2)
                };
                let (what, next) = match fault {
                    FaultClass::Retry { after: wait } => ("failed", Some(after(wait))),
                    FaultClass::Panic { after: wait } => ("panicked", Some(after(wait))),
                    FaultClass::Terminal => ("failed", None),
                };
                (object, what, error, *failures, next)
            }
            Entry::Quarantined { object, error } => (object, "undecodable", error, 1, None),
            Entry::Settled { object, .. } => {
                self.failures.remove(&(object.clone(), source.to_owned()));
                return;
            }
            Entry::Observed { object, change, .. } => {
                // It decodes again, or is gone: no operator has anything to say about it any more.
                let is_gone = matches!(change, Change::Deleted | Change::Missed);
                self.failures
                    .retain(|(key, _), failure| key != object || !(is_gone || failure.what == "undecodable"));
                return;
            }
            _ => return,
        };
        let name = (object.clone(), source.to_owned());
        let since = self.failures.get(&name).map_or(at, |failure| failure.since);
        let failure = FailingObject { what, error: shorten(error), failures, since, next };
        insert_bounded(&mut self.failures, name, failure, FAILURES_MAX);
    }
}

/// Inserts an entry unless the map is full of others.
fn insert_bounded<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V, entries_max: usize) {
    if map.len() < entries_max || map.contains_key(&key) {
        map.insert(key, value);
    }
}

fn shorten(error: &str) -> String {
    error.chars().take(ERROR_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use homeostat_core::journal::{Cause, Next, Verb, WriteOutcome};
    use jiff::Timestamp;

    use super::*;

    fn thing() -> Key {
        Key::new("demo.dev", "things", "a", "x")
    }

    fn observe(activity: &Activity, at_ms: i64, entry: Entry) {
        let at = Timestamp::from_millisecond(at_ms).expect("a time");
        activity.observe(&Record { at, source: "thing".into(), entry });
    }

    fn started() -> Entry {
        Entry::Started { object: thing(), causes: vec![Cause::Edited], failures: 0, waited: Duration::ZERO }
    }

    fn failed(failures: u32) -> Entry {
        let fault = FaultClass::Retry { after: Duration::from_secs(5) };
        Entry::Failed {
            object: thing(),
            error: "the cloud says no".into(),
            fault,
            failures,
            took: Duration::ZERO,
        }
    }

    fn settled() -> Entry {
        Entry::Settled { object: thing(), next: Next::AwaitChange, took: Duration::ZERO }
    }

    #[test]
    fn a_failure_stays_until_the_object_settles() {
        let activity = Activity::default();
        observe(&activity, 1_000, failed(1));
        observe(&activity, 9_000, failed(2));
        let view = activity.view(10_000, false, |_| true);
        assert_eq!(
            view["failures"][0]["failure"],
            json!({"what": "failed", "error": "the cloud says no", "failures": 2, "since": 1_000, "next": 14_000})
        );
        assert_eq!(view.get("controllers"), None, "of operators only those may know who may read metrics");
        assert_eq!(activity.view(10_000, false, |_| false)["failures"], json!([]));
        observe(&activity, 11_000, settled());
        assert_eq!(activity.view(12_000, true, |_| true)["failures"], json!([]));
    }

    #[test]
    fn controllers_are_counted() {
        let activity = Activity::default();
        let queued = |name: &str| Entry::Queued {
            object: Key::new("demo.dev", "things", "a", name),
            cause: Cause::Edited,
        };
        for second in 0..10 {
            observe(&activity, second * 1_000, queued("x"));
            observe(&activity, second * 1_000, started());
            let outcome = WriteOutcome::Done { revision: None };
            observe(
                &activity,
                second * 1_000,
                Entry::Wrote {
                    object: thing(),
                    verb: Verb::Apply,
                    target: thing(),
                    outcome,
                    diff: homeostat_core::FieldDiff::default(),
                },
            );
            observe(&activity, second * 1_000, settled());
        }
        observe(&activity, 9_500, queued("x"));
        observe(&activity, 9_500, queued("y"));
        observe(&activity, 9_500, queued("y"));
        observe(&activity, 9_600, started());
        let view = activity.view(10_000, true, |_| true);
        assert_eq!(
            view["controllers"],
            json!([{"name": "thing", "running": 1, "queued": 1, "backoff": 0, "reconciles": 10, "failures": 0, "writes": 10, "reconcilesPerSecond": 1.0, "writesPerSecond": 1.0, "slowestMs": 0}])
        );
        let later = activity.view(60_000, true, |_| true);
        assert_eq!(later["controllers"][0]["reconcilesPerSecond"], 0.0);
    }

    #[test]
    fn a_loop_that_never_rests_raises_an_alarm_and_ends_it() {
        let activity = Activity::default();
        for number in 0..400 {
            observe(&activity, number * 50, started());
        }
        let view = activity.view(20_000, false, |_| true);
        assert_eq!(view["hot"][0]["perSecond"], 20.0, "{view}");
        assert_eq!(activity.view(45_000, false, |_| true)["hot"], json!([]));
    }

    #[test]
    fn what_cannot_be_decoded_is_a_failure_until_it_changes() {
        let activity = Activity::default();
        observe(
            &activity,
            1_000,
            Entry::Quarantined { object: thing(), error: "missing field `text`".into() },
        );
        assert_eq!(activity.view(0, false, |_| true)["failures"][0]["failure"]["what"], "undecodable");
        observe(
            &activity,
            2_000,
            Entry::Observed {
                object: thing(),
                revision: homeostat_core::Revision::new(7),
                change: Change::Modified,
            },
        );
        assert_eq!(activity.view(0, false, |_| true)["failures"], json!([]));
    }

    #[test]
    fn memory_is_bounded() {
        let activity = Activity::default();
        for number in 0..3 * FAILURES_MAX {
            let object = Key::new("", "things", "a", &number.to_string());
            observe(&activity, 0, Entry::Quarantined { object, error: "e".repeat(10_000) });
        }
        let state = activity.state();
        assert_eq!(state.failures.len(), FAILURES_MAX);
        assert!(state.failures.values().all(|failure| failure.error.len() == ERROR_LETTERS_MAX));
    }
}
