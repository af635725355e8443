//! Tracks one controller: its waiting and running objects, and its recent rates.

use std::collections::{HashSet, VecDeque};

use homeostat_core::Key;
use homeostat_core::journal::{Entry, WriteOutcome};
use serde_json::{Value, json};

/// The maximum number of waiting objects that are counted. Beyond that, the console shows a number that is too low.
const WAITING_MAX: usize = 100_000;

/// Rates are averages over this many seconds: long enough not to jump, short enough to be current.
const RATE_SECONDS: i64 = 10;

/// The current activity of one controller.
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

    pub(super) fn view(&mut self, name: &str, now_ms: i64) -> Value {
        let first = now_ms.div_euclid(1000) - RATE_SECONDS;
        let recent = || self.recent.iter().filter(|one| one.second >= first);
        let rate = |sum: u32| (f64::from(sum) / 10.0 * 10.0).round() / 10.0;
        json!({
            "name": name,
            "workers": self.workers,
            "running": self.running.len(),
            "queued": self.queued.len(),
            "backoff": self.backoff.len(),
            "reconciles": self.reconciles,
            "failures": self.failures,
            "writes": self.writes,
            "reconcilesPerSecond": rate(recent().map(|one| one.reconciles).sum()),
            "writesPerSecond": rate(recent().map(|one| one.writes).sum()),
            "slowestMs": recent().map(|one| one.slowest_ms).max().unwrap_or(0),
        })
    }
}

fn insert_bounded(keys: &mut HashSet<Key>, key: &Key) {
    if keys.len() < WAITING_MAX && !keys.contains(key) {
        keys.insert(key.clone());
    }
}
