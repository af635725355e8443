//! Folds the journal into what the operators of this process are doing now: controllers, failures, watches, worlds and
//! alarms. The console shows it, and an operator's admin server sends it to consoles of other processes.
//!
//! **Invariant:** memory use is bounded regardless of what is recorded. A record costs a few map operations under one
//! lock, because this runs inside the journal's writer.

mod controller;
mod hot_loops;
mod report;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Key;
use crate::journal::{Change, Entry, FaultClass, Record, RequestedNext, WatchState};

use controller::ControllerActivity;
pub use controller::ControllerFigures;
use hot_loops::HotLoops;
pub use report::{ActivityReport, NotAnswered, OperatorAnswer, OperatorAnswers};

/// The maximum number of failing objects to keep, more than anyone reads. The earliest ones stay, because they most
/// likely caused the others.
const FAILURES_MAX: usize = 2_000;

/// The maximum number of controllers, watches and worlds to keep; an operator has a handful of each.
const NAMES_MAX: usize = 500;

/// The maximum length of an error, in characters.
const ERROR_LETTERS_MAX: usize = 600;

/// The current activity of the operators in this process.
#[derive(Default)]
pub struct Activity(Mutex<ActivityState>);

#[derive(Default)]
struct ActivityState {
    /// Incremented with every record, so that readers can tell whether anything happened.
    records: u64,
    controllers: BTreeMap<String, ControllerActivity>,
    failures: BTreeMap<(Key, String), FailingObject>,
    watches: BTreeMap<(String, String), WatchActivity>,
    worlds: BTreeMap<String, WorldActivity>,
    /// Controllers with a world.
    world_sources: BTreeSet<String>,
    hot: HotLoops,
}

/// What operators are doing, as far as somebody may know it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorActivity {
    /// Objects that cannot be reconciled.
    pub failures: Vec<Failure>,
    /// Objects that are reconciled without rest.
    pub hot: Vec<HotLoop>,
    /// The operators themselves; `None` for those who may only know about objects.
    #[serde(flatten)]
    pub figures: Option<OperatorFigures>,
}

/// What operators are doing besides single objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorFigures {
    /// The controllers.
    pub controllers: Vec<ControllerFigures>,
    /// What they watch.
    pub watches: Vec<Watch>,
    /// Their worlds, by name.
    pub worlds: BTreeMap<String, WorldActivity>,
}

/// An object, the controller that cannot reconcile it, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The object.
    pub key: Key,
    /// The controller.
    pub by: String,
    /// What is wrong.
    pub failure: FailingObject,
}

/// An object, and the controller that never rests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HotLoop {
    /// The object.
    pub key: Key,
    /// The controller.
    pub by: String,
    /// Reconciles a second.
    pub per_second: f64,
}

/// What a controller watches, and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// The operator.
    pub by: String,
    /// The kind: `apps/deployments`.
    pub resource: String,
    /// How far it has come.
    pub watch: WatchActivity,
}

/// An object that an operator cannot reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingObject {
    /// `failed`, `panicked`, `undecodable`.
    pub what: Cow<'static, str>,
    /// Why.
    pub error: String,
    /// Failed runs in a row.
    pub failures: u32,
    /// When the failures began, in milliseconds since 1970.
    pub since: i64,
    /// When the next retry is due; `None` if the object must change first.
    pub next: Option<i64>,
    /// Whether a later run ended that may not have made any call.
    #[serde(skip)]
    is_parked: bool,
}

/// A watch of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchActivity {
    /// The newest revision it delivered; 0 if it has not delivered any.
    pub revision: u64,
    /// When it delivered it, in milliseconds since 1970.
    pub heard: i64,
    /// Why it is disconnected.
    pub error: Option<String>,
    /// When that began.
    pub since: i64,
}

/// The last complete pass over a world, and why the following one did not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorldActivity {
    /// When the last complete pass ended, in milliseconds since 1970; 0 if none has.
    pub at: i64,
    /// Why the following one failed.
    pub error: Option<String>,
    /// When the next attempt is due.
    pub next: i64,
    /// When passes began to fail.
    pub since: i64,
    /// Whether the circuit breaker is open: only probes are sent.
    pub is_blocked: bool,
    /// Resources that the objects want.
    pub wanted: u64,
    /// Resources that were found.
    pub things: u64,
    /// Those of them that are ours.
    pub owned: u64,
    /// Resources that may have drifted.
    pub suspects: u64,
    /// Resources of ours that nobody wants.
    pub leaks: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Why leaks were not deleted.
    pub withheld: Option<String>,
}

impl Activity {
    /// Observes a record.
    pub fn observe(&self, record: &Record) {
        self.state().observe(record);
    }

    /// Returns the number of records observed so far.
    pub fn records(&self) -> u64 {
        self.state().records
    }

    /// Returns what somebody may know: failures and hot loops of visible objects, and everything else only with
    /// `may_see_operators`.
    pub fn view(
        &self,
        now_ms: i64,
        may_see_operators: bool,
        is_visible: impl Fn(&Key) -> bool,
    ) -> OperatorActivity {
        let mut state = self.state();
        state.hot.close_window(now_ms);
        let failures = state.failures.iter().filter(|((key, _), _)| is_visible(key));
        let failures = failures.map(|((key, source), failure)| Failure {
            key: key.clone(),
            by: source.clone(),
            failure: failure.clone(),
        });
        let hot = state.hot.alarms().filter(|(key, ..)| is_visible(key));
        let hot =
            hot.map(|(key, by, per_second)| HotLoop { key: key.clone(), by: by.to_owned(), per_second });
        OperatorActivity {
            failures: failures.collect(),
            hot: hot.collect(),
            figures: may_see_operators.then(|| state.figures(now_ms)),
        }
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActivityState {
    fn figures(&self, now_ms: i64) -> OperatorFigures {
        let watch = |((by, resource), watch): (&(String, String), &WatchActivity)| Watch {
            by: by.clone(),
            resource: resource.clone(),
            watch: watch.clone(),
        };
        // The operator itself records what its watches deliver.
        let controllers = self.controllers.iter().filter(|(_, one)| one.has_worked());
        OperatorFigures {
            controllers: controllers.map(|(name, one)| one.figures(name, now_ms)).collect(),
            watches: self.watches.iter().map(watch).collect(),
            worlds: self.worlds.clone(),
        }
    }

    fn observe(&mut self, record: &Record) {
        self.records += 1;
        let (at, source) = (record.at.as_millisecond(), record.source.as_str());
        let is_about_world = matches!(record.entry, Entry::Surveyed { .. } | Entry::SurveyFailed { .. });
        if is_about_world && self.world_sources.len() < NAMES_MAX && !self.world_sources.contains(source) {
            self.world_sources.insert(source.to_owned());
        }
        match &record.entry {
            Entry::Watched { resource, state } => self.observe_watch(source, resource, state, at),
            Entry::Surveyed { world, wanted, things, owned, suspects, leaks, deleted, withheld } => {
                let (things, owned, suspects) = (*things, *owned, *suspects);
                let pass = WorldActivity {
                    at,
                    wanted: *wanted,
                    things,
                    owned,
                    suspects,
                    leaks: *leaks,
                    deleted: *deleted,
                    withheld: withheld.clone(),
                    ..WorldActivity::default()
                };
                insert_bounded(&mut self.worlds, world.clone(), pass, NAMES_MAX);
            }
            Entry::SurveyFailed { world, error, is_blocked, retry } => {
                let mut pass = self.worlds.get(world).cloned().unwrap_or_default();
                pass.since = if pass.error.is_some() { pass.since } else { at };
                pass.error = Some(shorten(error));
                pass.is_blocked = *is_blocked;
                pass.next = at + milliseconds(*retry);
                insert_bounded(&mut self.worlds, world.clone(), pass, NAMES_MAX);
            }
            Entry::Led { .. } => {}
            entry => {
                self.observe_failure(source, entry, at);
                if let Entry::Observed { object, revision, .. } = entry {
                    self.observe_change(source, object, revision.get(), at);
                }
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
        let mut watch = self.watches.get(&name).cloned().unwrap_or_default();
        match state {
            WatchState::Failing { error, .. } => {
                watch.since = if watch.error.is_some() { watch.since } else { at };
                watch.error = Some(shorten(error));
            }
            WatchState::Fresh => {
                watch.error = None;
                watch.heard = watch.heard.max(at);
            }
            WatchState::Listing => {}
        }
        insert_bounded(&mut self.watches, name, watch, NAMES_MAX);
    }

    /// Records the newest revision that the watch of this kind has delivered.
    fn observe_change(&mut self, source: &str, object: &Key, revision: u64, at: i64) {
        let resource = match object.group() {
            "" => object.resource().to_owned(),
            group => format!("{group}/{}", object.resource()),
        };
        if let Some(watch) = self.watches.get_mut(&(source.to_owned(), resource)) {
            watch.revision = watch.revision.max(revision);
            watch.heard = at;
        }
    }

    /// Records that an object fails, or has stopped failing.
    fn observe_failure(&mut self, source: &str, entry: &Entry, at: i64) {
        let (object, what, error, failures, next) = match entry {
            Entry::Failed { object, error, fault, failures, .. } => {
                let (what, next) = match fault {
                    FaultClass::Retry { after } => ("failed", Some(at + milliseconds(*after))),
                    FaultClass::Panic { after } => ("panicked", Some(at + milliseconds(*after))),
                    FaultClass::Terminal => ("failed", None),
                };
                (object, what, error, *failures, next)
            }
            Entry::Quarantined { object, error } => (object, "undecodable", error, 1, None),
            Entry::Settled { object, next, .. } => {
                let name = (object.clone(), source.to_owned());
                // While the external API does not respond, runs finish without calling it, which does not clear a
                // failure.
                let is_parked =
                    matches!(next, RequestedNext::Requeue { .. }) && self.world_sources.contains(source);
                match self.failures.get_mut(&name) {
                    Some(failure) if is_parked && !failure.is_parked => failure.is_parked = true,
                    _ => drop(self.failures.remove(&name)),
                }
                return;
            }
            Entry::Observed { object, change, .. } => {
                // The object decodes again, or it is gone and no longer reconciled.
                let is_gone = matches!(change, Change::Deleted | Change::Missed);
                self.failures
                    .retain(|(key, _), failure| key != object || !(is_gone || failure.what == "undecodable"));
                return;
            }
            _ => return,
        };
        let name = (object.clone(), source.to_owned());
        let since = self.failures.get(&name).map_or(at, |failure| failure.since);
        let what = Cow::Borrowed(what);
        let failure = FailingObject { what, error: shorten(error), failures, since, next, is_parked: false };
        insert_bounded(&mut self.failures, name, failure, FAILURES_MAX);
    }
}

/// Inserts or replaces an entry, unless that would exceed the map's limit.
fn insert_bounded<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V, entries_max: usize) {
    if map.len() < entries_max || map.contains_key(&key) {
        map.insert(key, value);
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

fn shorten(error: &str) -> String {
    error.chars().take(ERROR_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use crate::journal::{Cause, Verb, WriteOutcome};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    /// Returns what is sent.
    fn sent_view(activity: &Activity, now_ms: i64, may_see_operators: bool) -> Value {
        serde_json::to_value(activity.view(now_ms, may_see_operators, |_| true)).expect("it is data")
    }

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
        Entry::Settled { object: thing(), next: RequestedNext::AwaitChange, took: Duration::ZERO }
    }

    #[test]
    fn a_failure_stays_until_the_object_settles() {
        let activity = Activity::default();
        observe(&activity, 1_000, failed(1));
        observe(&activity, 9_000, failed(2));
        let view = sent_view(&activity, 10_000, false);
        assert_eq!(
            view["failures"][0]["failure"],
            json!({"what": "failed", "error": "the cloud says no", "failures": 2, "since": 1_000, "next": 14_000})
        );
        assert_eq!(view.get("controllers"), None, "of operators only those may know who may read metrics");
        assert_eq!(activity.view(10_000, false, |_| false), OperatorActivity::default());
        observe(&activity, 11_000, settled());
        assert_eq!(sent_view(&activity, 12_000, true)["failures"], json!([]));
    }

    #[test]
    fn controllers_are_counted() {
        let activity = Activity::default();
        observe(&activity, 0, Entry::ControllerStarted { workers: 4 });
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
                    diff: crate::FieldDiff::default(),
                },
            );
            observe(&activity, second * 1_000, settled());
        }
        observe(&activity, 9_500, queued("x"));
        observe(&activity, 9_500, queued("y"));
        observe(&activity, 9_500, queued("y"));
        observe(&activity, 9_600, started());
        let view = sent_view(&activity, 10_000, true);
        assert_eq!(
            view["controllers"],
            json!([{"name": "thing", "workers": 4, "running": 1, "queued": 1, "backoff": 0, "reconciles": 10, "failures": 0, "writes": 10, "reconcilesPerSecond": 1.0, "writesPerSecond": 1.0, "slowestMs": 0}])
        );
        let later = sent_view(&activity, 60_000, true);
        assert_eq!(later["controllers"][0]["reconcilesPerSecond"], 0.0);
    }

    #[test]
    fn a_loop_that_never_rests_raises_an_alarm_and_ends_it() {
        let activity = Activity::default();
        for number in 0..400 {
            observe(&activity, number * 50, started());
        }
        let view = sent_view(&activity, 20_000, false);
        assert_eq!(view["hot"][0]["perSecond"], 20.0, "{view}");
        assert_eq!(sent_view(&activity, 45_000, false)["hot"], json!([]));
    }

    #[test]
    fn what_cannot_be_decoded_is_a_failure_until_it_changes() {
        let activity = Activity::default();
        observe(
            &activity,
            1_000,
            Entry::Quarantined { object: thing(), error: "missing field `text`".into() },
        );
        assert_eq!(sent_view(&activity, 0, false)["failures"][0]["failure"]["what"], "undecodable");
        observe(
            &activity,
            2_000,
            Entry::Observed { object: thing(), revision: crate::Revision::new(7), change: Change::Modified },
        );
        assert_eq!(sent_view(&activity, 0, false)["failures"], json!([]));
    }

    #[test]
    fn a_world_that_does_not_answer_says_so_until_it_does() {
        let activity = Activity::default();
        let retry = Duration::from_secs(5);
        let failed = |is_blocked| Entry::SurveyFailed {
            world: "cloud".into(),
            error: "503".into(),
            is_blocked,
            retry,
        };
        observe(&activity, 1_000, failed(false));
        observe(&activity, 3_000, failed(true));
        let world = sent_view(&activity, 0, true)["worlds"]["cloud"].clone();
        let shown = |name: &str| world[name].clone();
        assert_eq!(
            [shown("error"), shown("isBlocked"), shown("next"), shown("since"), shown("at")],
            [json!("503"), json!(true), json!(8_000), json!(1_000), json!(0)]
        );
        let (wanted, things, owned, suspects, leaks, deleted) = (4, 3, 2, 1, 0, 0);
        let world = "cloud".to_owned();
        observe(
            &activity,
            9_000,
            Entry::Surveyed { world, wanted, things, owned, suspects, leaks, deleted, withheld: None },
        );
        let world = sent_view(&activity, 0, true)["worlds"]["cloud"].clone();
        assert_eq!(
            (&world["error"], &world["isBlocked"], &world["at"]),
            (&Value::Null, &json!(false), &json!(9_000))
        );
        assert_eq!((&world["wanted"], &world["things"]), (&json!(4), &json!(3)));
    }

    #[test]
    fn a_controller_tells_how_many_workers_it_has() {
        let activity = Activity::default();
        observe(&activity, 0, Entry::ControllerStarted { workers: 8 });
        let controllers = sent_view(&activity, 0, true)["controllers"].clone();
        assert_eq!((&controllers[0]["name"], &controllers[0]["workers"]), (&json!("thing"), &json!(8)));
    }

    #[test]
    fn watches_tell_how_far_they_have_come() {
        let activity = Activity::default();
        let resource = "demo.dev/things".to_owned();
        observe(&activity, 1_000, Entry::Watched { resource, state: WatchState::Fresh });
        let revision = crate::Revision::new(7);
        observe(&activity, 2_000, Entry::Observed { object: thing(), revision, change: Change::Modified });
        let watch = sent_view(&activity, 0, true)["watches"][0]["watch"].clone();
        assert_eq!(watch, json!({"revision": 7, "heard": 2_000, "error": null, "since": 0}));
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
