//! A schedule as a file: its deviations from the schedule without faults, at addresses that stay valid when the
//! operator changes in unrelated ways.

use std::path::{Path, PathBuf};

use homeostat_core::recorded_run::RecordedRun;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// The version of the format.
const FORMAT: u32 = 1;

/// A fault at one point of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deviation {
    /// The address of the point: what is done there and, from the second time on, its number.
    pub at: String,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

/// A schedule that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The version of this format.
    pub homeostat_trace: u32,
    /// The name of the simulation.
    pub simulation: String,
    /// The random seed.
    pub seed: u64,
    /// The steps of the user, for people.
    pub steps: Vec<String>,
    /// The numbers of given objects and steps that are left out, counted from 1 over both.
    #[serde(default)]
    pub skipped: Vec<usize>,
    /// The faults.
    pub deviations: Vec<Deviation>,
    /// The violated rule.
    pub oracle: String,
    /// The subject of the violation.
    pub subject: String,
    /// The package of the test that found it; empty if no test of cargo did.
    #[serde(default)]
    pub package: String,
    /// The name of the test that found it, as cargo lists it.
    #[serde(default)]
    pub test: String,
    /// The complete report, for people.
    #[serde(default)]
    pub report: String,
    /// What happened, for `homeostat sim show`.
    #[serde(default, skip_serializing_if = "RecordedRun::is_empty")]
    pub run: RecordedRun,
}

impl Trace {
    pub(crate) fn new(simulation: &str, seed: u64, steps: Vec<String>, deviations: Vec<Deviation>) -> Self {
        Self {
            homeostat_trace: FORMAT,
            simulation: simulation.to_owned(),
            seed,
            steps,
            skipped: Vec::new(),
            deviations,
            oracle: String::new(),
            subject: String::new(),
            package: std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
            test: test_name().unwrap_or_default(),
            report: String::new(),
            run: RecordedRun::default(),
        }
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a trace of this format.
    pub fn load(path: &Path) -> std::io::Result<Self> {
        let trace: Self = serde_json::from_slice(&std::fs::read(path)?)?;
        if trace.homeostat_trace == FORMAT {
            return Ok(trace);
        }
        let words =
            format!("{} is a trace of format {}, not {FORMAT}", path.display(), trace.homeostat_trace);
        Err(std::io::Error::other(words))
    }

    /// Writes the trace into the folder of traces and returns its path.
    pub(crate) fn save(&self) -> std::io::Result<PathBuf> {
        let folder = traces_folder();
        std::fs::create_dir_all(&folder)?;
        let name: String = self
            .simulation
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' })
            .collect();
        let path = folder.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        std::fs::write(&path, text + "\n")?;
        Ok(path)
    }
}

/// Returns the name of the running test: the test harness names the thread after it.
pub(crate) fn test_name() -> Option<String> {
    std::thread::current().name().filter(|name| *name != "main").map(ToOwned::to_owned)
}

/// Returns the folder of traces: `HOMEOSTAT_TRACES`, or one in the target folder.
fn traces_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("HOMEOSTAT_TRACES") {
        return folder.into();
    }
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        return PathBuf::from(target).join("homeostat-sim");
    }
    let here = std::env::current_dir().unwrap_or_default();
    let target = here.ancestors().map(|folder| folder.join("target")).find(|target| target.is_dir());
    target.unwrap_or_else(std::env::temp_dir).join("homeostat-sim")
}
