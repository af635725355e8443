//! The outcome of a simulation: how much was tried, and the report of a failure with an easily readable timeline.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use homeostat_core::recorded_run::{RecordedChange, RecordedLine, RecordedRun};

use crate::alarm::Alarm;
use crate::engine::{Change, RunRecord, TimelineLine, shown_time};
use crate::object::read_object;
use crate::state::{change_in_words, shown_key};
use crate::trace::Trace;

/// The maximum number of lines of a timeline. Further lines are omitted from the middle, where nothing went wrong.
const LINES_MAX: usize = 60;

/// The actor of a fault in the timeline.
const FAULT: &str = "FAULT";

/// The outcome of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The failure, if one was found.
    pub failure: Option<Failure>,
    /// The number of schedules that were run, without those that shrank a failure.
    pub schedules: u64,
    /// The duration in real seconds.
    pub seconds: f64,
    /// The number of distinct states that were reached.
    pub states: usize,
    /// A hash of everything that happened in all schedules: the same for the same seed, in every process and with any
    /// number of cores, unless the limit of real time ends the exploration.
    pub hash: u64,
    /// The least privileges that the schedules needed, as a ClusterRole.
    pub role: String,
}

/// A schedule that violates a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The violated rule.
    pub oracle: String,
    /// What is wrong, in words.
    pub text: String,
    /// The shortest failing schedule that was found.
    pub trace: Trace,
    /// The file of the trace, if it could be written.
    pub file: Option<PathBuf>,
    /// The complete report, for people.
    pub report: String,
}

impl Failure {
    /// Returns the number of steps of the user and faults in the trace.
    pub fn steps(&self) -> usize {
        self.trace.steps.len() + self.trace.deviations.len()
    }
}

/// Returns the report of a failing schedule.
pub(crate) fn tell(name: &str, trace: &Trace, alarm: &Alarm, record: &RunRecord, how: &str) -> String {
    let mut text = format!("FAILED {name}\n\n{}: {}\n", alarm.oracle, alarm.text);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "({how})");
    if !trace.steps.is_empty() {
        text.push_str("\nWhat the user does:\n");
    }
    for (at, step) in trace.steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {step}", at + 1);
    }
    text.push_str("\nWhat goes wrong:\n");
    if trace.deviations.is_empty() {
        text.push_str("  nothing; it happens without any fault\n");
    }
    for deviation in &trace.deviations {
        let _ = writeln!(text, "  at \"{}\": {}", deviation.at, deviation.fault.shown());
    }
    text.push_str("\nWhat happens (in virtual time; rN is a revision of the store):\n");
    text.push_str(&timeline(&record.lines));
    text
}

/// Returns the command that replays the trace in this file.
pub(crate) fn replay_command(trace: &Trace, file: &Path) -> String {
    let package = if trace.package.is_empty() { String::new() } else { format!("-p {} ", trace.package) };
    let test = if trace.test.is_empty() { &trace.simulation } else { &trace.test };
    format!("HOMEOSTAT_REPLAY={} cargo test {package}{test}", file.display())
}

/// Returns the hint, and the versions of the object in question.
pub(crate) fn explain(alarm: &Alarm, record: &RunRecord) -> String {
    let mut text = versions(record, &alarm.subject);
    if !alarm.hint.is_empty() {
        let _ = writeln!(text, "\nHint: {}", alarm.hint);
    }
    text
}

/// Returns the run as it is saved.
pub(crate) fn recorded_run(record: &RunRecord) -> RecordedRun {
    let mut run = RecordedRun::default();
    run.set_lines(record.lines.iter().map(|line| RecordedLine {
        at: RecordedRun::milliseconds(line.at),
        actor: line.actor.clone(),
        text: line.text.clone(),
        is_fault: line.is_fault,
        is_decisive: line.actor == FAULT,
    }));
    run.set_changes(record.changes.iter().map(recorded_change));
    run
}

fn recorded_change(change: &Change) -> RecordedChange {
    let event = &change.event;
    RecordedChange {
        at: RecordedRun::milliseconds(change.at),
        actor: change.actor.shown(),
        revision: event.revision.get(),
        key: event.key.clone(),
        before: event.old.as_ref().and_then(|entry| read_object(&entry.bytes)),
        object: event.new.as_ref().and_then(|entry| read_object(&entry.bytes)),
    }
}

/// Returns the lines around the last fault. Repeated lines are shown once, with their number.
fn timeline(lines: &[TimelineLine]) -> String {
    let mut text = String::new();
    let lines = without_repeats(lines);
    let last_fault = lines.iter().rposition(|(line, _)| line.is_fault).unwrap_or(0);
    let first = last_fault.saturating_sub(LINES_MAX / 2);
    let shown = &lines[first..(first + LINES_MAX).min(lines.len())];
    if first > 0 {
        let _ = writeln!(text, "  … {first} lines before");
    }
    let width = shown.iter().map(|(line, _)| line.actor.chars().count()).max().unwrap_or_default();
    // Every fault of a shrunk trace is necessary; the last one made the difference.
    let decisive = shown.iter().rposition(|(line, _)| line.actor == FAULT);
    for (at, (line, repeats)) in shown.iter().enumerate() {
        let mark = if line.is_fault { "⚡" } else { "  " };
        let mut more = if *repeats > 0 { format!(" (and {repeats} more like this)") } else { String::new() };
        if Some(at) == decisive {
            more.push_str("  ◀ this makes the difference");
        }
        let at = shown_time(line.at);
        let _ = writeln!(text, "  {at:>11} {mark} {:<width$}  {}{more}", line.actor, line.text);
    }
    if first + LINES_MAX < lines.len() {
        let _ = writeln!(text, "  … {} lines after", lines.len() - first - LINES_MAX);
    }
    text
}

/// Returns each line with the number of equal lines that follow it directly.
fn without_repeats(lines: &[TimelineLine]) -> Vec<(&TimelineLine, usize)> {
    let mut kept: Vec<(&TimelineLine, usize)> = Vec::new();
    for line in lines {
        match kept.last_mut() {
            Some((last, repeats)) if last.text == line.text && last.actor == line.actor => *repeats += 1,
            _ => kept.push((line, 0)),
        }
    }
    kept
}

/// Returns every version of one object.
fn versions(record: &RunRecord, subject: &str) -> String {
    let changes = record.changes.iter().filter(|change| shown_key(&change.event.key) == subject);
    let mut text = String::new();
    for change in changes {
        let what = match (&change.event.old, &change.event.new) {
            (None, _) => "created".to_owned(),
            (Some(_), None) => "deleted".to_owned(),
            (Some(old), Some(new)) => change_in_words(old, new),
        };
        let what = if what.is_empty() { "marks of another writer".to_owned() } else { what };
        let at = shown_time(change.at);
        let _ = writeln!(text, "  {at:>11}  r{} by {}: {what}", change.event.revision, change.actor.shown());
    }
    if text.is_empty() { text } else { format!("\nVersions of {subject}:\n{text}") }
}
