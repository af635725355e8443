//! What is told about a simulation: how much was tried, and about a failure a timeline that a tired person understands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::alarm::Alarm;
use crate::engine::{RunRecord, TimelineLine, shown_time};
use crate::state::{change_in_words, shown_key};
use crate::trace::Trace;

/// Lines of a timeline; more are left out in the middle, where nothing went wrong.
const LINES_MAX: usize = 60;

/// Who does what a fault does, in the timeline.
const FAULT: &str = "FAULT";

/// What became of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The failure, if one was found.
    pub failure: Option<Failure>,
    /// Schedules that were run, without those that made a failure shorter.
    pub schedules: u64,
    /// Real seconds it took.
    pub seconds: f64,
    /// Different states that were reached.
    pub states: usize,
    /// A hash of everything that happened in all of them: the same for the same seed, in every process and with any number of
    /// cores, as long as the limit of real time does not end the exploration.
    pub hash: u64,
    /// The least rights that the schedules needed, as a ClusterRole.
    pub role: String,
}

/// A schedule after which something is not as it must be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The oracle that complains.
    pub oracle: String,
    /// What about.
    pub text: String,
    /// The shortest schedule found.
    pub trace: Trace,
    /// Where the trace was written, if it could be.
    pub file: Option<PathBuf>,
    /// The whole story, for people.
    pub report: String,
}

impl Failure {
    /// The steps of the story: what the user did, and what went wrong.
    pub fn steps(&self) -> usize {
        self.trace.steps.len() + self.trace.deviations.len()
    }
}

/// Tells the story of a failing schedule.
pub(crate) fn tell(name: &str, trace: &Trace, alarm: &Alarm, record: &RunRecord, how: &str) -> String {
    let mut text = format!("FAILED {name}\n\n{}: {}\n", alarm.oracle, alarm.text);
    // Writing into text cannot fail.
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

/// How the trace in this file is replayed.
pub(crate) fn replay_command(trace: &Trace, file: &Path) -> String {
    let package = if trace.package.is_empty() { String::new() } else { format!("-p {} ", trace.package) };
    let test = if trace.test.is_empty() { &trace.simulation } else { &trace.test };
    format!("HOMEOSTAT_REPLAY={} cargo test {package}{test}", file.display())
}

/// The hint and the versions of the object in question.
pub(crate) fn explain(alarm: &Alarm, record: &RunRecord) -> String {
    let mut text = versions(record, &alarm.subject);
    if !alarm.hint.is_empty() {
        let _ = writeln!(text, "\nHint: {}", alarm.hint);
    }
    text
}

/// The lines around the last fault; of those that repeat only the first and the number.
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
    // Without any of the faults it would not have come to this; the last one made the difference.
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

/// Lines with how many of the same text and actor follow at once.
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

/// Every version of one object.
fn versions(record: &RunRecord, subject: &str) -> String {
    let changes = record.changes.iter().filter(|change| shown_key(&change.event.key) == subject);
    let mut text = String::new();
    for change in changes {
        let what = match (&change.event.old, &change.event.new) {
            (None, _) => "created".to_owned(),
            (Some(_), None) => "deleted".to_owned(),
            (Some(old), Some(new)) => change_in_words(old, new),
        };
        let at = shown_time(change.at);
        let _ = writeln!(text, "  {at:>11}  r{} by {}: {what}", change.event.revision, change.actor.shown());
    }
    if text.is_empty() { text } else { format!("\nVersions of {subject}:\n{text}") }
}
