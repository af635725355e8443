//! `homeostat-fuzz`: feeds random input to parsers, patches and checks, and judges what they do.
//!
//! Reading order: [`target`] (what a target is), [`targets`] (all of them, one file each), [`corpus`] (the initial
//! inputs), [`mutate`], [`input_runner`] (tries one input), [`worker`] (the loop), [`shrink`], [`supervisor`] (one
//! process per target).
//!
//! The feedback is the outcome of an input, not the code that ran: the counters of `-C instrument-coverage` can be read
//! at run time only with unsafe code, and everything would have to be compiled once more.

mod corpus;
mod input_runner;
mod mutate;
mod server;
mod shrink;
mod supervisor;
mod target;
mod targets;
mod webhook;
mod worker;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};

use crate::supervisor::{FuzzPlan, Report, VIOLATION_CODE, run_plan};
use crate::target::TargetEntry;
use crate::targets::{TARGETS, target_named};
use crate::worker::{WorkerTask, replay, run_worker};

/// The exit code for wrong arguments.
const USAGE_CODE: u8 = 2;

/// Feeds random input to parts of the API server and checks what must hold for every input.
///
/// A failing input is shrunk and saved. The exit code is 1 if something failed.
#[derive(Parser)]
#[command(after_help = targets_help())]
struct Arguments {
    /// Names of targets (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each target is tried
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The same seed gives the same inputs in the same order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many processes run at a time (default: one per core)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Prints JSON: {"targets": [{"target", "seed", "inputs", "outcomes", "violation", "file"}]}
    #[arg(long)]
    json: bool,
    /// Tries one saved input
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Where failing inputs are saved
    #[arg(long, value_name = "FOLDER", default_value = "target/fuzz")]
    folder: PathBuf,
    /// Works on one target; used by the program itself
    #[arg(long, hide = true)]
    worker: Option<String>,
    /// Where a worker writes its current input
    #[arg(long, hide = true, default_value = "/dev/null")]
    current: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.replay {
        return replay_file(file);
    }
    if let Some(name) = &arguments.worker {
        let Some(target) = target_named(name) else { return unknown_target(name) };
        let (seconds, seed) = (arguments.seconds, arguments.seed);
        let is_good = run_worker(WorkerTask { target, seconds, seed, current: arguments.current });
        return ExitCode::from(if is_good { 0 } else { VIOLATION_CODE });
    }
    fuzz(&arguments)
}

fn fuzz(arguments: &Arguments) -> ExitCode {
    let mut targets: Vec<&'static TargetEntry> = Vec::new();
    for name in &arguments.targets {
        let Some(target) = target_named(name) else { return unknown_target(name) };
        targets.push(target);
    }
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let plan = FuzzPlan {
        targets,
        seconds: arguments.seconds,
        seed: arguments.seed,
        jobs: arguments.jobs.unwrap_or(cores).max(1),
        folder: arguments.folder.clone(),
        is_quiet: arguments.json,
    };
    let reports = match run_plan(&plan) {
        Ok(reports) => reports,
        Err(error) => {
            eprintln!("no scratch folder can be made: {error}");
            return ExitCode::from(USAGE_CODE);
        }
    };
    if arguments.json {
        let entries: Vec<Value> = reports.iter().map(Report::entry).collect();
        print(&json!({"targets": entries}).to_string());
    } else {
        print(&summary(&reports));
    }
    let is_good = reports.iter().all(|report| report.finding.is_none());
    ExitCode::from(if is_good { 0 } else { VIOLATION_CODE })
}

fn summary(reports: &[Report]) -> String {
    let failed = reports.iter().filter(|report| report.finding.is_some()).count();
    let inputs: u64 = reports.iter().map(|report| report.inputs).sum();
    format!("{inputs} inputs, {failed} of {} runs failed", reports.len())
}

fn replay_file(file: &Path) -> ExitCode {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let saved = text.and_then(|text| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()));
    let saved = match saved {
        Ok(saved) => saved,
        Err(why) => {
            eprintln!("{} cannot be read: {why}", file.display());
            return ExitCode::from(USAGE_CODE);
        }
    };
    let name = saved["target"].as_str().unwrap_or_default();
    let Some(target) = target_named(name) else { return unknown_target(name) };
    match replay(target, saved["input"].clone()) {
        Ok(()) => {
            print(&format!("{name}: everything holds for this input"));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            print(&format!("{name}: {violation}"));
            ExitCode::from(VIOLATION_CODE)
        }
    }
}

fn unknown_target(name: &str) -> ExitCode {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    eprintln!("there is no target {name:?}; the targets are {}", names.join(", "));
    ExitCode::from(USAGE_CODE)
}

fn targets_help() -> String {
    let lines = TARGETS.iter().map(|target| format!("  {:18} {}", target.name, target.about));
    format!("Targets:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Prints a line. If the pipe is closed, the rest is not needed.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
