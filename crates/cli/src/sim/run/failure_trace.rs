//! A failure as a file, with everything needed to repeat it.

use std::path::{Path, PathBuf};

use homeostat_core::recorded_run::RecordedRun;
use serde::{Deserialize, Serialize};

use super::fault::FaultAtAddress;
use super::scenario::Scenario;

/// The version of the format.
const FORMAT: u32 = 1;

/// A failing run that can be repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecTrace {
    /// The version of this format; its name distinguishes it from the traces of operators in Rust.
    #[serde(rename = "homeostatExecTrace")]
    format: u32,
    /// The operator.
    pub(super) command: String,
    /// The scenario, with everything it names.
    pub(super) scenario: Scenario,
    /// The seed of the exploration that found it.
    pub(super) seed: u64,
    /// The faults.
    pub(super) faults: Vec<FaultAtAddress>,
    /// The violated rule.
    pub(super) oracle: String,
    /// The subject of the violation.
    pub(super) subject: String,
    /// The whole report as it was printed.
    #[serde(default)]
    pub(super) report: String,
    /// What happened, for `homeostat sim show`.
    #[serde(default, skip_serializing_if = "RecordedRun::is_empty")]
    pub(super) run: RecordedRun,
}

impl ExecTrace {
    /// Creates a trace of a run without faults.
    pub(super) fn new(command: &str, scenario: &Scenario, seed: u64) -> Self {
        Self {
            format: FORMAT,
            command: command.to_owned(),
            scenario: scenario.clone(),
            seed,
            faults: Vec::new(),
            oracle: String::new(),
            subject: String::new(),
            report: String::new(),
            run: RecordedRun::default(),
        }
    }

    /// Reads a trace.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let trace: Self = serde_json::from_str(&text).map_err(|error| {
            format!("{} is no failure that `homeostat sim run` saved: {error}", path.display())
        })?;
        if trace.format != FORMAT {
            let format = trace.format;
            return Err(format!("{} has format {format}, this program knows {FORMAT}", path.display()));
        }
        Ok(trace)
    }

    /// Rejects a path that cannot be written. Leaves an existing file unchanged, and does not leave a new one behind.
    pub(super) fn probe(path: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            format!(
                "a failure could not be saved as {}: {error}; choose another path with --save",
                path.display()
            )
        };
        let is_new = !path.exists();
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        if is_new { std::fs::remove_file(path).map_err(failed) } else { Ok(()) }
    }

    /// Writes the trace.
    pub(super) fn save(&self, path: &Path) -> Result<PathBuf, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{} cannot be written: {error}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        std::fs::write(path, text + "\n").map_err(|error| failed(&error))?;
        Ok(path.to_owned())
    }
}
