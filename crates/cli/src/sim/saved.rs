//! A failure that was saved: by a Rust test, or by `homeostat sim run`. The two formats have names of their own.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The version of the format of Rust tests.
const FORMAT: u64 = 1;

/// Which of the two a file is.
pub(super) enum SavedTrace {
    /// A Rust test found it.
    Test(TestTrace),
    /// `homeostat sim run` found it.
    Exec,
}

/// What a trace of a Rust test says, as far as it matters here.
#[derive(Deserialize)]
pub(super) struct TestTrace {
    /// The name of the simulation.
    pub(super) simulation: String,
    /// The package of the test.
    #[serde(default)]
    pub(super) package: String,
    /// The test, as cargo calls it.
    #[serde(default)]
    pub(super) test: String,
    /// The story as it was told.
    #[serde(default)]
    pub(super) report: String,
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
