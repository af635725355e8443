//! Runs one process per target, a limited number at a time, and collects their results.
//!
//! **Invariant:** an aborted process (stack overflow, out of memory, an endless input) is a finding like any other: its
//! last input is known, shrunk with one process per attempt, and saved.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::shrink::shrink;
use crate::target::TargetEntry;
use crate::worker::read_current;

/// The maximum number of processes started to shrink an input that aborts them.
const SHRINKING_PROCESSES: usize = 300;
/// The exit code of a worker that found a violation and said so.
pub(crate) const VIOLATION_CODE: u8 = 1;

/// The targets to run, and how.
pub(crate) struct FuzzPlan {
    pub(crate) targets: Vec<&'static TargetEntry>,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    /// Where failing inputs are saved.
    pub(crate) folder: PathBuf,
    pub(crate) is_quiet: bool,
}

/// The result of a target.
pub(crate) struct Report {
    pub(crate) target: &'static TargetEntry,
    pub(crate) seed: u64,
    pub(crate) inputs: u64,
    pub(crate) outcomes: u64,
    /// What was violated, and the file with the input.
    pub(crate) finding: Option<(String, PathBuf)>,
}

impl Report {
    /// Returns the entry for machines.
    pub(crate) fn entry(&self) -> Value {
        let Self { target, seed, inputs, outcomes, finding } = self;
        let (violation, file) = finding.as_ref().map(|(why, file)| (why, file.display().to_string())).unzip();
        json!({"target": target.name, "seed": seed, "inputs": inputs, "outcomes": outcomes,
            "violation": violation, "file": file})
    }

    /// Returns the line for people.
    pub(crate) fn line(&self) -> String {
        let Self { target, seed, inputs, outcomes, .. } = self;
        let name = target.name;
        let numbers = format!("{name:18} {inputs:>9} inputs {outcomes:>6} outcomes");
        match &self.finding {
            None => format!("{numbers}  ok"),
            Some((why, file)) => format!(
                "{numbers}  FAILED (seed {seed})\n{why}\n  again with: homeostat-fuzz --replay {}",
                file.display()
            ),
        }
    }
}

/// Runs all targets of a plan. A line is printed when one ends; reports come in the order of the plan.
pub(crate) fn run_plan(plan: &FuzzPlan) -> std::io::Result<Vec<Report>> {
    let scratch = tempfile::tempdir()?;
    // With fewer targets than jobs, several processes with different seeds work on each.
    let rounds = (plan.jobs / plan.targets.len().max(1)).max(1);
    let seeds = (0..rounds as u64).map(|round| plan.seed.wrapping_add(round));
    let jobs = seeds.flat_map(|seed| plan.targets.iter().map(move |target| (*target, seed)));
    let waiting: Mutex<VecDeque<_>> = Mutex::new(jobs.enumerate().collect());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs {
            scope.spawn(|| {
                while let Some((at, (target, seed))) = next_job(&waiting) {
                    let current = scratch.path().join(format!("{}-{seed}", target.name));
                    let report = run_target(plan, target, seed, &current);
                    plan.say(&report.line());
                    locked(&done).push((at, report));
                }
            });
        }
    });
    let mut reports = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|(at, _)| *at);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}

fn next_job<T>(waiting: &Mutex<VecDeque<T>>) -> Option<T> {
    locked(waiting).pop_front()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FuzzPlan {
    fn say(&self, line: &str) {
        if !self.is_quiet {
            let erase = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            eprint!("{erase}");
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    /// Shows the progress of a target, if standard error is a terminal.
    fn show_progress(&self, name: &str, line: &Value) {
        if !self.is_quiet && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{name}: {} inputs, {} outcomes", line["inputs"], line["outcomes"]);
        }
    }
}

fn run_target(plan: &FuzzPlan, target: &'static TargetEntry, seed: u64, current: &Path) -> Report {
    let mut report = Report { target, seed, inputs: 0, outcomes: 0, finding: None };
    let ended = run_process(plan, &mut report, current);
    let found = match ended {
        Ok(Some(found)) => Some(found),
        Ok(None) => None,
        Err(why) => Some((why, read_current(current).map(|input| shrink_with_processes(target, &input)))),
    };
    report.finding = found.map(|(why, input)| {
        let file = save(plan, target, &why, &input.unwrap_or_default());
        (why, file)
    });
    report
}

/// What was violated, and the input if it is known.
type Found = (String, Option<Value>);

/// Runs a worker until it ends; returns an error if it ended without a result.
fn run_process(plan: &FuzzPlan, report: &mut Report, current: &Path) -> Result<Option<Found>, String> {
    let worker = worker_command(report.target)
        .args(["--seconds", &plan.seconds.to_string(), "--seed", &report.seed.to_string()])
        .arg("--current")
        .arg(current)
        .stdout(Stdio::piped())
        .spawn();
    let mut worker = worker.map_err(|error| format!("the worker does not start: {error}"))?;
    let lines = BufReader::new(worker.stdout.take().expect("it is piped")).lines();
    let mut last = Value::Null;
    for line in lines.map_while(Result::ok) {
        last = serde_json::from_str(&line).unwrap_or_default();
        report.inputs = last["inputs"].as_u64().unwrap_or(report.inputs);
        report.outcomes = last["outcomes"].as_u64().unwrap_or(report.outcomes);
        plan.show_progress(report.target.name, &last);
    }
    let status = worker.wait().map_err(|error| error.to_string())?;
    match last["violation"].as_str() {
        Some(violation) => Ok(Some((violation.to_owned(), Some(last["input"].clone())))),
        None if status.success() && last["ended"] == true => Ok(None),
        None => Err(format!("the process was aborted: {status}")),
    }
}

fn worker_command(target: &TargetEntry) -> Command {
    let program = std::env::current_exe().expect("a running program has a file");
    let mut command = Command::new(program);
    command.args(["--worker", target.name]).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn shrink_with_processes(target: &'static TargetEntry, input: &Value) -> Value {
    let Ok(folder) = tempfile::tempdir() else { return input.clone() };
    let file = folder.path().join("input.json");
    shrink(input, SHRINKING_PROCESSES, |candidate| {
        let is_written = std::fs::write(&file, saved(target, "", candidate).to_string()).is_ok();
        let program = std::env::current_exe().expect("a running program has a file");
        let status = Command::new(program)
            .arg("--replay")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // An aborted process has no exit code.
        is_written && status.is_ok_and(|status| status.code().is_none())
    })
}

fn saved(target: &TargetEntry, why: &str, input: &Value) -> Value {
    json!({"target": target.name, "violation": why, "input": input})
}

/// Saves a failing input under a name made of its contents.
fn save(plan: &FuzzPlan, target: &TargetEntry, why: &str, input: &Value) -> PathBuf {
    let hash = crate::input_runner::hash_of_feature(&format!("{input:?}"));
    let file = plan.folder.join(format!("{}-{:08x}.json", target.name, hash & 0xffff_ffff));
    let text = format!("{:#}\n", saved(target, why, input));
    let written = std::fs::create_dir_all(&plan.folder).and_then(|()| std::fs::write(&file, text));
    if let Err(error) = written {
        eprintln!("{} cannot be written: {error}\n{input}", file.display());
    }
    file
}
