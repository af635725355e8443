//! The report of a failure: a timeline that a tired person understands.

use std::fmt::Write as _;
use std::time::Duration;

use homeostat_core::canonical_state::change_in_words;
use homeostat_core::recorded_run::{RecordedChange, RecordedLine, RecordedRun};

use super::canonical_state::repeatable_name;
use super::explore::Failure;
use super::run_record::{Change, RunRecord};
use super::scenario::{Scenario, Step};
use super::wire_log::{Actor, TimelineLine};

/// The maximum number of timeline lines; further lines are omitted where nothing went wrong.
const LINES_MAX: usize = 50;
/// The maximum number of lines of the operator's output.
const OUTPUT_LINES_MAX: usize = 12;

/// Returns the report of a failing run.
pub(super) fn tell(scenario: &Scenario, failure: &Failure) -> String {
    let Failure { faults, violation, record } = failure;
    let mut text = format!("FAILED: {}\n{}\n", violation.oracle, violation.text);
    text.push_str("\nwhat you do:\n");
    for (at, step) in scenario.steps.iter().map(Step::shown).enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}. {step}", at + 1);
    }
    if faults.is_empty() {
        text.push_str("what goes wrong: nothing; it happens without any fault\n");
    } else {
        text.push_str("what goes wrong:\n");
        for fault in faults {
            let _ = writeln!(text, "  {fault}");
        }
    }
    text.push_str("\ntimeline (seconds):\n");
    text.push_str(&timeline(&lines_of(record)));
    if let Some(output) = output_of(record) {
        let _ = write!(text, "\nthe operator's last output:\n{output}");
    }
    if !violation.hint.is_empty() {
        let _ = writeln!(text, "\nhint: {}", violation.hint);
    }
    text
}

/// Returns the run as it is saved.
pub(super) fn recorded_run(record: &RunRecord) -> RecordedRun {
    let mut run = RecordedRun::default();
    run.set_lines(record.lines.iter().map(|line| RecordedLine {
        at: RecordedRun::milliseconds(line.at),
        actor: line.actor.to_string(),
        text: line.text.clone(),
        is_fault: line.is_fault,
        is_decisive: line.is_fault,
    }));
    run.set_changes(record.changes.iter().map(|change| recorded_change(record, change)));
    run
}

fn recorded_change(record: &RunRecord, change: &Change) -> RecordedChange {
    let (before, object) = change.objects();
    RecordedChange {
        at: RecordedRun::milliseconds(change.at),
        actor: record.actor_of(change).to_string(),
        revision: change.event.revision.get(),
        key: change.event.key.clone(),
        before,
        object,
    }
}

/// Returns the timeline of the run, including changes that no request of the operator caused.
fn lines_of(record: &RunRecord) -> Vec<TimelineLine> {
    let mut lines = record.lines.clone();
    for change in &record.changes {
        let actor = record.actor_of(change);
        let (old, new) = change.objects();
        let Some(object) = new.as_ref().or(old.as_ref()) else { continue };
        let name = repeatable_name(&change.event.key, object);
        let text = match (&old, &new) {
            (None, _) => format!("    {name} is created"),
            (Some(_), None) => format!("    {name} is gone"),
            (Some(old), Some(new)) => {
                let words = change_in_words(old.clone(), new.clone());
                if words.is_empty() {
                    continue;
                }
                format!("    {name}: {}", short(&words))
            }
        };
        lines.push(TimelineLine { at: change.at, actor, text, is_fault: false });
    }
    lines.sort_by_key(|line| line.at);
    lines
}

/// Truncates a long string.
fn short(text: &str) -> String {
    /// The width of a wide terminal.
    const CHARS_MAX: usize = 160;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARS_MAX).chain(['…']).collect()
}

fn timeline(lines: &[TimelineLine]) -> String {
    let mut text = String::new();
    // From the start of the scenario, but at least the lines around the first fault.
    let fault = lines.iter().position(|line| line.is_fault);
    let start = lines.iter().position(|line| line.actor == Actor::User).unwrap_or(0);
    let start = start.min(fault.unwrap_or(start));
    let first = fault.map_or(start, |at| start.max(at.saturating_sub(LINES_MAX / 2)));
    if first > 0 {
        let _ = writeln!(text, "  … {first} lines before");
    }
    // Without any one of the faults the run would not have failed; the last one made the difference.
    let decisive = lines.iter().rposition(|line| line.is_fault);
    for (at, line) in lines.iter().enumerate().skip(first).take(LINES_MAX) {
        let mark = if line.is_fault { "⚡" } else { "  " };
        let end = if Some(at) == decisive { "  ◀ this makes the difference" } else { "" };
        let _ = writeln!(text, "  {} {mark} {:<9} {}{end}", shown_time(line.at), line.actor, line.text);
    }
    if first + LINES_MAX < lines.len() {
        let _ = writeln!(text, "  … {} lines after", lines.len() - first - LINES_MAX);
    }
    text
}

fn shown_time(at: Duration) -> String {
    format!("{:>7.2}", at.as_secs_f64())
}

fn output_of(record: &RunRecord) -> Option<String> {
    let lines = &record.output[record.output.len().saturating_sub(OUTPUT_LINES_MAX)..];
    let mut told = String::new();
    for line in lines {
        let _ = writeln!(told, "  | {}", short(line));
    }
    (!told.is_empty()).then_some(told)
}
