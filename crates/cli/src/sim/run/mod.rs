//! `homeostat sim run`: breaks an operator in any language at every request that it makes, and judges the resulting
//! state of the cluster.
//!
//! Reading order: `scenario` and `count_condition` (the input), `one_run` (one run) with `sim_server`,
//! `operator_process` and `scenario_user` (its participants), `wire`, `wire_log` and `watch_tap` (where faults are
//! injected), `fault` and `fault_points` (the faults), `canonical_state` and `oracle` (the verdict), `explore` (which
//! runs are made), `failure_report` and `failure_trace` (the output of a failure).

mod canonical_state;
mod count_condition;
mod explore;
mod failure_report;
mod failure_trace;
mod fault;
mod fault_points;
mod one_run;
mod operator_process;
mod oracle;
mod progress;
mod request_address;
mod run_record;
mod scenario;
mod scenario_user;
mod sim_server;
mod violation;
mod watch_tap;
mod wire;
mod wire_log;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum as _;
use homeostat_core::Entropy;
use tokio_util::sync::CancellationToken;

use super::saved::SavedStory;
use super::{refuse, report_misfit};
use crate::temporary_folder::TemporaryFolder;
use crate::up::stop_on_signal;
use explore::{Exploration, Failure, Findings, Replayed};
use failure_trace::ExecTrace;
use fault::FaultKind;
use progress::ProgressLine;
use scenario::Scenario;

/// The exit code when a failure was found.
const FAILURE_FOUND: u8 = 1;
/// The exit code after ctrl-c, as shells report it.
const INTERRUPTED: u8 = 130;

/// Break an operator in any language at every request that it makes, and see whether it recovers
///
/// Starts the command on an API server of its own, with KUBECONFIG set, and performs the steps of the scenario: first
/// without faults, then repeatedly with a fault at another request, watch event or step. Every run must end in the same
/// state.
#[derive(clap::Args)]
#[command(
    after_help = "The exit code is 0 if no failure was found, 1 if one was, 2 if nothing could be tried, and 3 if a fault\n\
    to be replayed did not happen.\n\
    docs/guide/other-languages.md explains the scenario file."
)]
pub(crate) struct Run {
    /// The operator: a command for sh. It finds the server through KUBECONFIG
    #[arg(long, value_name = "COMMAND", required_unless_present = "replay")]
    exec: Option<String>,

    /// A YAML file with the steps of the user and the conditions that must hold
    #[arg(long, value_name = "FILE", required_unless_present = "replay")]
    scenario: Option<PathBuf>,

    /// Repeat a failure that was saved, with the command and scenario in it unless others are given
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// The random seed, for combinations of faults and for generated names
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// The maximum number of runs with faults
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    runs: usize,

    /// The time after which no new run is started
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    seconds: u64,

    /// The kinds of faults to try, separated by commas [default: all]
    #[arg(long, value_name = "SORTS", value_delimiter = ',', value_enum)]
    faults: Vec<FaultKind>,

    /// The number of concurrent runs [default: the number of processors]
    #[arg(long, value_name = "COUNT")]
    jobs: Option<usize>,

    /// The file to save a failure to
    #[arg(long, value_name = "FILE", default_value = "homeostat-sim-failure.json")]
    save: PathBuf,
}

/// Returns the story and the run of a saved failure.
pub(super) fn saved_story(file: &Path) -> Result<SavedStory, String> {
    let saved = ExecTrace::load(file)?;
    Ok(SavedStory { place: format!("operator: {}", saved.command), report: saved.report, run: saved.run })
}

impl Run {
    /// Creates a command that only repeats a saved failure.
    pub(super) fn replaying(file: PathBuf) -> Self {
        Self {
            exec: None,
            scenario: None,
            replay: Some(file),
            seed: 0,
            runs: 0,
            seconds: 0,
            faults: Vec::new(),
            jobs: None,
            save: PathBuf::new(),
        }
    }

    /// Runs the exploration.
    pub(crate) fn run(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return refuse(&error.to_string()),
        };
        runtime.block_on(self.run_until_signal()).unwrap_or_else(|why| refuse(&why))
    }

    async fn run_until_signal(self) -> Result<ExitCode, String> {
        let stop = CancellationToken::new();
        let signals = stop_on_signal(stop.clone()).map_err(|error| error.to_string())?;
        let signals = tokio::spawn(signals);
        let entropy = Entropy::system();
        let folder = TemporaryFolder::create(&entropy)
            .await
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let progress = ProgressLine::new();
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(ExitCode::from(INTERRUPTED)),
            outcome = self.explore(folder.path(), &progress) => outcome,
            () = progress.tick() => unreachable!("it never returns"),
        };
        stop.cancel();
        let _ = signals.await;
        outcome
    }

    async fn explore(&self, folder: &Path, progress: &ProgressLine) -> Result<ExitCode, String> {
        let saved = self.replay.as_deref().map(ExecTrace::load).transpose()?;
        let scenario = match (&self.scenario, &saved) {
            (Some(path), _) => Scenario::load(path)?,
            (None, Some(saved)) => saved.scenario.clone(),
            (None, None) => return Err("--scenario is missing".to_owned()),
        };
        let command = self.exec.clone().or_else(|| saved.as_ref().map(|saved| saved.command.clone()));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let exploration = Exploration {
            command: command.unwrap_or_default(),
            scenario,
            seed: saved.as_ref().map_or(self.seed, |saved| saved.seed),
            runs_max: self.runs,
            time_max: Duration::from_secs(self.seconds),
            jobs: self.jobs.unwrap_or(processors).max(1),
            sorts: if self.faults.is_empty() {
                FaultKind::value_variants().to_vec()
            } else {
                self.faults.clone()
            },
            folder: folder.to_owned(),
        };
        match saved {
            Some(saved) => replay(&exploration, &saved, progress).await,
            None => self.explore_all(&exploration, progress).await,
        }
    }

    async fn explore_all(
        &self,
        exploration: &Exploration,
        progress: &ProgressLine,
    ) -> Result<ExitCode, String> {
        // An exploration takes minutes, so a path that cannot be written is rejected before it starts.
        ExecTrace::probe(&self.save)?;
        let findings = exploration.explore(progress).await?;
        progress.end();
        let summary = summary_of(&findings);
        let Some(failure) = &findings.failure else {
            println!("no failure found: {summary}");
            return Ok(ExitCode::SUCCESS);
        };
        let trace = trace_of(exploration, failure);
        println!("{}", trace.report);
        let path = trace.save(&self.save)?;
        println!("found by {summary}");
        println!("again: homeostat sim replay {}", path.display());
        Ok(ExitCode::from(FAILURE_FOUND))
    }
}

async fn replay(
    exploration: &Exploration,
    saved: &ExecTrace,
    progress: &ProgressLine,
) -> Result<ExitCode, String> {
    let outcome = exploration.replay(&saved.faults, progress).await?;
    progress.end();
    let failure = match outcome {
        Replayed::Failed(failure) => failure,
        Replayed::Passed => {
            println!("no failure: with the same faults, everything is as it should be");
            return Ok(ExitCode::SUCCESS);
        }
        Replayed::Unreached(faults) => {
            let faults: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
            return Ok(report_misfit(&format!("these faults did not happen:{}", faults.concat())));
        }
    };
    println!("{}", failure_report::tell(&exploration.scenario, &failure));
    let is_same = failure.violation.oracle == saved.oracle && failure.violation.subject == saved.subject;
    println!(
        "{}",
        if is_same { "the same failure again" } else { "a failure, but not the one that was saved" }
    );
    Ok(ExitCode::from(FAILURE_FOUND))
}

fn trace_of(exploration: &Exploration, failure: &Failure) -> ExecTrace {
    let mut trace = ExecTrace::new(&exploration.command, &exploration.scenario, exploration.seed);
    trace.faults.clone_from(&failure.faults);
    failure.violation.oracle.clone_into(&mut trace.oracle);
    failure.violation.subject.clone_into(&mut trace.subject);
    trace.report = failure_report::tell(&exploration.scenario, failure);
    trace.run = failure_report::recorded_run(&failure.record);
    trace
}

fn summary_of(findings: &Findings) -> String {
    let Findings { runs, unreached, singles, took, unrepeated, .. } = findings;
    let (tried, combinations) = (runs.min(singles), runs.saturating_sub(*singles));
    let seconds = took.as_secs_f64();
    let mut text = format!(
        "{runs} runs with faults in {seconds:.1} s ({tried} of {singles} single faults, {combinations} combinations)"
    );
    // Writing to a string cannot fail.
    if *unreached > 0 {
        let _ = write!(text, "; {unreached} of them never made the request that should have failed");
    }
    for one in unrepeated {
        let _ = write!(text, "\nnote: a failure that did not recur: {one}");
    }
    text
}
