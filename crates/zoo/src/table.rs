//! Writes the output of the program: a line for each animal, with the worst case of all seeds.

use serde_json::{Value, json};

use crate::hunt::HuntResult;

/// The header line.
pub const HEAD: &str =
    "animal                  found  schedules  seconds  steps  cured: alarms  schedules  seconds  says";

/// All hunts of one animal, one for each seed.
#[derive(Clone, Debug, Default)]
pub struct Row {
    hunts: Vec<HuntResult>,
}

impl Row {
    /// Collects the hunts of one animal.
    pub fn new(hunts: Vec<HuntResult>) -> Self {
        Self { hunts }
    }

    /// Returns whether it was found with every seed, without any false alarm.
    pub fn is_good(&self) -> bool {
        self.hunts.iter().all(HuntResult::is_good)
    }

    /// Returns the longest time it took to find the bug.
    pub fn seconds(&self) -> f64 {
        self.hunts.iter().map(|hunt| hunt.seconds).fold(0.0, f64::max)
    }

    fn name(&self) -> &'static str {
        self.hunts.first().map_or("", |hunt| hunt.name)
    }

    fn is_found(&self) -> bool {
        self.hunts.iter().all(|hunt| hunt.failure.is_some())
    }

    fn alarms(&self) -> usize {
        self.hunts.iter().filter(|hunt| hunt.alarm.is_some()).count()
    }

    fn schedules(&self) -> u64 {
        self.hunts.iter().map(|hunt| hunt.schedules).max().unwrap_or_default()
    }

    fn steps(&self) -> usize {
        self.hunts.iter().map(HuntResult::steps).max().unwrap_or_default()
    }

    /// Returns the line of the table.
    pub fn line(&self) -> String {
        let found = if self.is_found() { "yes" } else { "NO" };
        let cured = self.hunts.iter().map(|hunt| hunt.cured_schedules).min().unwrap_or_default();
        let cured_seconds = self.hunts.iter().map(|hunt| hunt.cured_seconds).fold(0.0, f64::max);
        let mut oracles: Vec<&str> =
            self.hunts.iter().filter_map(|hunt| Some(&*hunt.failure.as_ref()?.oracle)).collect();
        oracles.sort_unstable();
        oracles.dedup();
        format!(
            "{:<23} {found:<5} {:>10} {:>8.2} {:>6} {:>14} {cured:>10} {cured_seconds:>8.2}  {}",
            self.name(),
            self.schedules(),
            self.seconds(),
            self.steps(),
            self.alarms(),
            oracles.join(", ")
        )
    }

    /// Returns the JSON entry; with several seeds it also contains each of them.
    pub fn entry(&self) -> Value {
        let mut entry = json!({
            "name": self.name(),
            "found": self.is_found(),
            "schedules": self.schedules(),
            "seconds": self.seconds(),
            "steps": self.steps(),
            "cured_alarms": self.alarms(),
        });
        if self.hunts.len() > 1 {
            entry["seeds"] = self.hunts.iter().map(of_seed).collect();
        }
        entry
    }

    /// Returns the stories of false alarms: failures found in the cured twin, for all seeds.
    pub fn false_alarms(&self) -> impl Iterator<Item = &str> {
        self.hunts.iter().filter_map(|hunt| Some(&*hunt.alarm.as_ref()?.report))
    }

    /// Returns the stories of the bugs that were found.
    pub fn findings(&self) -> impl Iterator<Item = &str> {
        self.hunts.iter().filter_map(|hunt| Some(&*hunt.failure.as_ref()?.report))
    }
}

fn of_seed(hunt: &HuntResult) -> Value {
    json!({
        "seed": hunt.seed,
        "found": hunt.failure.is_some(),
        "oracle": hunt.failure.as_ref().map(|failure| &failure.oracle),
        "schedules": hunt.schedules,
        "seconds": hunt.seconds,
        "steps": hunt.steps(),
        "cured_alarms": usize::from(hunt.alarm.is_some()),
        "cured_schedules": hunt.cured_schedules,
    })
}
