//! A saved failure, written by a Rust test or by `homeostat sim run`. Each format has its own name.

use std::path::Path;

use homeostat_core::recorded_run::RecordedRun;
use serde::Deserialize;
use serde_json::Value;

/// The version of the format of Rust tests.
const FORMAT: u64 = 1;

/// A file in one of the two formats.
pub(super) enum SavedTrace {
    /// A Rust test found it.
    Test(TestTrace),
    /// `homeostat sim run` found it.
    Exec,
}

/// The relevant part of a Rust test's trace.
#[derive(Deserialize)]
pub(super) struct TestTrace {
    /// The name of the simulation.
    pub(super) simulation: String,
    /// The package of the test.
    #[serde(default)]
    pub(super) package: String,
    /// The test, by cargo's name for it.
    #[serde(default)]
    pub(super) test: String,
    /// The report as it was printed.
    #[serde(default)]
    pub(super) report: String,
    /// What happened; empty in files from older versions.
    #[serde(default)]
    pub(super) run: RecordedRun,
}

/// A saved failure for display, independent of its format.
pub(super) struct SavedStory {
    /// The test or operator that failed.
    pub(super) place: String,
    /// The report.
    pub(super) report: String,
    /// What happened; empty if it was not saved.
    pub(super) run: RecordedRun,
}

impl TestTrace {
    /// Returns the story of the failure.
    pub(super) fn into_story(self) -> SavedStory {
        let place = if self.test.is_empty() {
            format!("simulation {}", self.simulation)
        } else {
            format!("test {} of {}", self.test, self.package)
        };
        SavedStory { place, report: self.report, run: self.run }
    }
}

impl SavedTrace {
    /// Reads a file.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown} is no JSON: {error}"))?;
        if value.get("homeostatExecTrace").is_some() {
            return Ok(Self::Exec);
        }
        match value.get("homeostatTrace").map(Value::as_u64) {
            None => Err(format!("{shown} is no failure that a simulation saved")),
            Some(Some(FORMAT)) => {
                let trace = serde_json::from_value(value);
                trace.map(Self::Test).map_err(|error| format!("{shown} is damaged: {error}"))
            }
            Some(_) => {
                let format = &value["homeostatTrace"];
                Err(format!("{shown} has format {format}, this program knows {FORMAT}"))
            }
        }
    }
}
