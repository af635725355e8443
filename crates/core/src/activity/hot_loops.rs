//! Detects hot loops: objects that are reconciled over and over without a pause.
//!
//! Runs are counted in windows. An object with too many runs in one window raises an alarm, and a calm window clears
//! it.

use std::collections::{BTreeMap, HashMap};

use crate::Key;

/// The length of a window, in milliseconds.
const WINDOW_MS: i64 = 10_000;

/// The maximum number of runs of one object in a window. Three per second for ten seconds is not a reaction to a
/// change.
const RUNS_MAX: u32 = 30;

/// The maximum number of objects counted in one window, and of alarms.
const OBJECTS_MAX: usize = 10_000;
const ALARMS_MAX: usize = 200;

/// Counts runs per object.
#[derive(Default)]
pub(super) struct HotLoops {
    window: i64,
    runs: HashMap<(Key, String), u32>,
    alarms: BTreeMap<(Key, String), u32>,
}

impl HotLoops {
    pub(super) fn observe(&mut self, object: &Key, source: &str, at_ms: i64) {
        self.close_window(at_ms);
        let name = (object.clone(), source.to_owned());
        if self.runs.len() < OBJECTS_MAX || self.runs.contains_key(&name) {
            *self.runs.entry(name).or_default() += 1;
        }
    }

    /// Turns the counts of a window that has ended into alarms.
    pub(super) fn close_window(&mut self, now_ms: i64) {
        let window = now_ms.div_euclid(WINDOW_MS);
        if window <= self.window {
            return;
        }
        // If a whole window passed without a record, the loop has ended.
        let is_last = window == self.window + 1;
        let runs = std::mem::take(&mut self.runs).into_iter();
        let hot = runs.filter(|(_, runs)| is_last && *runs > RUNS_MAX);
        let mut alarms: Vec<_> = hot.collect();
        alarms.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        alarms.truncate(ALARMS_MAX);
        self.alarms = alarms.into_iter().collect();
        self.window = window;
    }

    /// Returns the alarms: object, controller, runs per second.
    pub(super) fn alarms(&self) -> impl Iterator<Item = (&Key, &str, f64)> {
        let seconds = f64::from(10_u32);
        self.alarms
            .iter()
            .map(move |((key, source), runs)| (key, source.as_str(), f64::from(*runs) / seconds))
    }
}
