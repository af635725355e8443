//! `homeostat sim replay`: repeats a saved failure. Runs a Rust test with cargo, which compiles the current sources.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use super::run::Run;
use super::saved::{SavedTrace, TestTrace};
use super::{refuse, report_misfit};

/// The exit code when it fails again.
const FAILS_AGAIN: u8 = 1;
/// The start of a test's panic message if its trace does not fit (`Simulation::replay`).
const MISFIT: &str = "the trace no longer fits: ";
/// The start of the line that a simulation prints when it replays a trace instead of exploring (`Simulation::check`).
const REPLAYED: &str = "replayed the trace of ";

/// Repeat a failure that was saved, with the operator as it is now
#[derive(clap::Args)]
#[command(
    after_help = "The exit code is 0 if it no longer fails, 1 if it does, 2 if it could not be tried, and 3 if the trace\n\
    no longer fits: the operator never reached the point of a fault.\n\
    The failure of a Rust test is repeated in the workspace of the test: run this there."
)]
pub(crate) struct Replay {
    /// A failure that a Rust test or `homeostat sim run` saved
    file: PathBuf,
}

impl Replay {
    /// Repeats it.
    pub(crate) fn run(self) -> ExitCode {
        match SavedTrace::load(&self.file) {
            Ok(SavedTrace::Exec) => Run::replaying(self.file).run(),
            Ok(SavedTrace::Test(trace)) => replay_test(&trace, &self.file).unwrap_or_else(|why| refuse(&why)),
            Err(why) => refuse(&why),
        }
    }
}

fn replay_test(trace: &TestTrace, file: &Path) -> Result<ExitCode, String> {
    let TestTrace { simulation, package, test, .. } = trace;
    if package.is_empty() || test.is_empty() {
        return Err(format!(
            "{} was not saved by a test of cargo: call Simulation::replay with it where {simulation} is simulated",
            file.display()
        ));
    }
    // The test runs in the folder of its package.
    let file = file.canonicalize().map_err(|error| format!("{} cannot be found: {error}", file.display()))?;
    let is_built =
        cargo(package).arg("--no-run").status().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !is_built.success() {
        return Err(format!("the tests of {package} cannot be built; is this its workspace?"));
    }
    let run = cargo(package)
        .args([test, "--", "--exact", "--nocapture"])
        .env("HOMEOSTAT_REPLAY", &file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    let told = [run.stdout, run.stderr].map(|part| String::from_utf8_lossy(&part).into_owned());
    let has_run = told[0].lines().any(|line| line.starts_with(&format!("test {test} ...")));
    if !has_run {
        return Err(format!("{package} has no test {test} any more"));
    }
    let told = told.concat();
    if let Some(why) = told.lines().find_map(|line| Some(line.split_once(MISFIT)?.1)) {
        return Ok(report_misfit(why));
    }
    if !told.contains(REPLAYED) {
        return Ok(report_misfit(&format!("{test} does not simulate {simulation} any more")));
    }
    if run.status.success() {
        println!("no failure: with the same faults, {test} passes");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", told.trim_end());
    Ok(ExitCode::from(FAILS_AGAIN))
}

fn cargo(package: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["test", "--tests", "--package", package]);
    command
}
