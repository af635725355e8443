//! A failure as a file, with everything needed to repeat it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault::Deviation;
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
    pub(super) faults: Vec<Deviation>,
    /// The violated rule.
    pub(super) oracle: String,
    /// The subject of the violation.
    pub(super) subject: String,
    /// The whole story as it was told, for people.
    #[serde(default)]
    pub(super) report: String,
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

    /// Writes the trace.
    pub(super) fn save(&self, path: &Path) -> Result<PathBuf, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{} cannot be written: {error}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        std::fs::write(path, text + "\n").map_err(|error| failed(&error))?;
        Ok(path.to_owned())
    }
}
