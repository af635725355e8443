//! Tracks one controller: its waiting and running objects, and its recent rates.

use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::Key;
use crate::journal::{Entry, WriteOutcome};

/// The maximum number of waiting objects that are counted. Beyond that, the console shows a number that is too low.
const WAITING_MAX: usize = 100_000;

/// Rates are averages over this many seconds: long enough not to jump, short enough to be current.
const RATE_SECONDS: i64 = 10;

/// What one controller is doing, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerFigures {
    /// The controller.
    pub name: String,
    /// How many objects it reconciles at a time; 0 if that is not known.
    pub workers: u64,
    /// Objects that are being reconciled.
    pub running: u64,
    /// Objects that wait for a worker.
    pub queued: u64,
    /// Objects that wait out their backoff.
    pub backoff: u64,
    /// Reconciles since the start.
    pub reconciles: u64,
    /// Failed reconciles since the start.
    pub failures: u64,
    /// Writes since the start.
    pub writes: u64,
    /// Reconciles a second, in the last seconds.
    pub reconciles_per_second: f64,
    /// Writes a second, in the last seconds.
    pub writes_per_second: f64,
    /// The longest recent reconcile, in milliseconds.
    pub slowest_ms: u64,
}

/// What one controller is doing.
#[derive(Default)]
pub(super) struct ControllerActivity {
    /// How many objects it reconciles at a time; 0 if that is not known.
    workers: u64,
    queued: HashSet<Key>,
    running: HashSet<Key>,
    /// Objects waiting out their backoff.
    backoff: HashSet<Key>,
    reconciles: u64,
    failures: u64,
    writes: u64,
    recent: VecDeque<CountsOfSecond>,
}

/// The events of one second.
#[derive(Default)]
struct CountsOfSecond {
    second: i64,
    reconciles: u32,
    writes: u32,
    slowest_ms: u64,
}

impl ControllerActivity {
    pub(super) fn observe(&mut self, entry: &Entry, at_ms: i64) {
        match entry {
            Entry::ControllerStarted { workers } => self.workers = *workers,
            Entry::Queued { object, .. } => insert_bounded(&mut self.queued, object),
            Entry::Started { object, .. } => {
                self.queued.remove(object);
                self.backoff.remove(object);
                insert_bounded(&mut self.running, object);
            }
            Entry::Failed { object, took, .. } => {
                self.failures += 1;
                insert_bounded(&mut self.backoff, object);
                self.end_run(object, took, at_ms);
            }
            Entry::Settled { object, took, .. } => self.end_run(object, took, at_ms),
            Entry::Cancelled { object, .. } => drop(self.running.remove(object)),
            Entry::Wrote { outcome: WriteOutcome::Done { .. }, .. } => {
                self.writes += 1;
                self.second(at_ms).writes += 1;
            }
            _ => {}
        }
    }

    /// Returns whether it has workers, or has had an object to reconcile.
    pub(super) fn has_worked(&self) -> bool {
        self.workers > 0 || self.reconciles > 0 || !self.queued.is_empty() || !self.running.is_empty()
    }

    fn end_run(&mut self, object: &Key, took: &std::time::Duration, at_ms: i64) {
        self.running.remove(object);
        self.reconciles += 1;
        let second = self.second(at_ms);
        second.reconciles += 1;
        second.slowest_ms = second.slowest_ms.max(took.as_millis().try_into().unwrap_or(u64::MAX));
    }

    /// Returns the counts for this second, and drops expired ones.
    fn second(&mut self, at_ms: i64) -> &mut CountsOfSecond {
        let second = at_ms.div_euclid(1000);
        if self.recent.back().is_none_or(|last| last.second < second) {
            self.recent.push_back(CountsOfSecond { second, ..CountsOfSecond::default() });
        }
        while self.recent.front().is_some_and(|first| first.second <= second - RATE_SECONDS) {
            self.recent.pop_front();
        }
        self.recent.back_mut().expect("one was just pushed if there was none")
    }

    pub(super) fn figures(&self, name: &str, now_ms: i64) -> ControllerFigures {
        let first = now_ms.div_euclid(1000) - RATE_SECONDS;
        let recent = || self.recent.iter().filter(|one| one.second >= first);
        let rate = |sum: u32| (f64::from(sum) / 10.0 * 10.0).round() / 10.0;
        let count = |keys: &HashSet<Key>| u64::try_from(keys.len()).unwrap_or(u64::MAX);
        ControllerFigures {
            name: name.to_owned(),
            workers: self.workers,
            running: count(&self.running),
            queued: count(&self.queued),
            backoff: count(&self.backoff),
            reconciles: self.reconciles,
            failures: self.failures,
            writes: self.writes,
            reconciles_per_second: rate(recent().map(|one| one.reconciles).sum()),
            writes_per_second: rate(recent().map(|one| one.writes).sum()),
            slowest_ms: recent().map(|one| one.slowest_ms).max().unwrap_or(0),
        }
    }
}

fn insert_bounded(keys: &mut HashSet<Key>, key: &Key) {
    if keys.len() < WAITING_MAX && !keys.contains(key) {
        keys.insert(key.clone());
    }
}
