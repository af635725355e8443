//! A schedule as a file: where it deviates from the one in which nothing goes wrong, by names that survive unrelated changes
//! of the operator.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// The format of the file.
const FORMAT: u32 = 1;

/// One deviation: at the point of this name, this goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deviation {
    /// The point: what is done there, and the how manieth time.
    pub at: String,
    /// What goes wrong.
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
    /// What chance starts from.
    pub seed: u64,
    /// What the user does, for people.
    pub steps: Vec<String>,
    /// Given objects and steps of the simulation that are left out, by number, counted from 1 over both.
    #[serde(default)]
    pub skipped: Vec<usize>,
    /// Where it deviates.
    pub deviations: Vec<Deviation>,
    /// The oracle that it fails.
    pub oracle: String,
    /// What that oracle is about.
    pub subject: String,
    /// The package of the test that found it; empty where no test of cargo did.
    #[serde(default)]
    pub package: String,
    /// The test that found it, as cargo calls it.
    #[serde(default)]
    pub test: String,
    /// The whole story as it was told, for people.
    #[serde(default)]
    pub report: String,
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
        }
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// When the file cannot be read, or is no trace of this format.
    pub fn load(path: &Path) -> std::io::Result<Self> {
        let trace: Self = serde_json::from_slice(&std::fs::read(path)?)?;
        if trace.homeostat_trace == FORMAT {
            return Ok(trace);
        }
        let words =
            format!("{} is a trace of format {}, not {FORMAT}", path.display(), trace.homeostat_trace);
        Err(std::io::Error::other(words))
    }

    /// Writes the trace into the folder of traces and returns where.
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

/// The test that runs in this thread: cargo names the thread for it.
pub(crate) fn test_name() -> Option<String> {
    std::thread::current().name().filter(|name| *name != "main").map(ToOwned::to_owned)
}

/// `HOMEOSTAT_TRACES`, or a folder beside what cargo builds.
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
