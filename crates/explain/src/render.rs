//! Renders an explanation as text: the summary first, then other causes, what happened, what the object waits for, and
//! gaps.

use std::fmt::Write as _;

use homeostat_core::field_diff::FieldChange;
use homeostat_core::terminal_text::escape_controls;

use crate::explanation::{Cause, CauseCode, Explanation, Step, StepKind};
use crate::sentences::{capitalized, sentence};
use crate::times;

/// The maximum number of steps shown: the last ones say most, and all of it should fit on a screen of about forty
/// lines.
const STEPS_MAX: usize = 10;

/// The maximum number of other causes shown.
const CAUSES_MAX: usize = 4;

/// The maximum number of waits shown.
const WAITS_MAX: usize = 3;

/// The maximum number of fields shown per step.
const CHANGES_MAX: usize = 3;

/// The maximum number of fields shown for a step that only changed a status, which follows from something else.
const STATUS_CHANGES_MAX: usize = 1;

/// The maximum length of a line of the timeline, in characters: server errors can be very long.
const LINE_LETTERS_MAX: usize = 240;

/// Returns the explanation as text for people, ending in a newline.
pub fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for line in &explanation.summary {
        let _ = writeln!(text, "{line}");
    }
    section(&mut text, "Also", describe_other_causes(explanation).into_iter());
    let shown = select_steps(&explanation.timeline);
    let skipped = explanation.timeline.len() - shown.len();
    let more =
        (skipped > 0).then(|| format!("({skipped} steps of less weight are left out; --json has all)"));
    let steps = shown.into_iter().map(|step| describe_step(explanation, step));
    section(&mut text, "What happened", more.into_iter().chain(steps));
    section(&mut text, "What it waits for", describe_waits(explanation).into_iter());
    section(&mut text, "Not seen", explanation.gaps.iter().map(|gap| sentence(&capitalized(&shorten(gap)))));
    // Much of an explanation was written by others (messages, annotations, answers).
    escape_controls(&text)
}

/// Returns the causes besides the first that say something new: no conditions, which follow from a deeper cause, and
/// nothing that the first line already counts.
fn describe_other_causes(explanation: &Explanation) -> Vec<String> {
    let Some(first) = explanation.causes.first() else { return Vec::new() };
    let is_new = |cause: &&Cause| {
        let is_counted = cause.code == first.code && cause.about != first.about;
        let follows = matches!(cause.code, CauseCode::Condition | CauseCode::NoEndpoints);
        !is_counted && (!follows || cause.code == first.code)
    };
    let mut others: Vec<&Cause> = explanation.causes.iter().skip(1).filter(is_new).collect();
    // A refused write to an object also appears in the status of its owners.
    let mut codes = std::collections::BTreeSet::from([first.code]);
    others.retain(|cause| !cause.code.is_of_write() || codes.insert(cause.code));
    let more = others.len().saturating_sub(CAUSES_MAX);
    let more = (more > 0).then(|| format!("({more} more; --json has all)"));
    others.iter().take(CAUSES_MAX).map(|cause| sentence(&shorten(&cause.text))).chain(more).collect()
}

/// Returns what it waits for, except what the first line already says.
fn describe_waits(explanation: &Explanation) -> Vec<String> {
    let told = explanation.summary.first().map(|line| line.to_lowercase()).unwrap_or_default();
    let is_new = |wait: &&String| {
        let what = wait.split_once(": ").map_or(wait.as_str(), |(_, what)| what);
        !told.contains(&what.trim_end_matches('.').to_lowercase())
    };
    let waits: Vec<&String> = explanation.waits.iter().filter(is_new).collect();
    let more = waits.len().saturating_sub(WAITS_MAX);
    let more = (more > 0).then(|| format!("({more} more; --json has all)"));
    waits.into_iter().take(WAITS_MAX).map(|wait| sentence(&shorten(wait))).chain(more).collect()
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "\n{title}:");
    }
    for line in lines {
        let _ = writeln!(text, "  {}", line.replace('\n', "\n      "));
    }
}

fn describe_step(explanation: &Explanation, step: &Step) -> String {
    let times = if step.times > 1 { format!(" ({}×)", step.times) } else { String::new() };
    let mark = if step.kind == StepKind::Failure { "✗" } else { "·" };
    let when = times::relative(explanation.at, step.at);
    let clock = times::clock(explanation.at, step.at);
    let what = shorten(&format!("{} {}", step.actor, step.text));
    let mut text = format!("{mark} {clock} {when:>10}  {what}{times}");
    let changes: Vec<&FieldChange> = step.diff.changes.iter().filter(|change| !is_time(change)).collect();
    let is_status = changes.iter().all(|change| change.path.starts_with("status"));
    let shown_max = if is_status { STATUS_CHANGES_MAX } else { CHANGES_MAX };
    for change in changes.iter().take(shown_max) {
        let _ = write!(text, "\n{change}");
    }
    let hidden = changes.len().saturating_sub(shown_max) + step.diff.omitted as usize;
    if hidden > 0 {
        let _ = write!(text, "\nand {hidden} more");
    }
    text
}

/// Returns the most informative steps, in their order.
fn select_steps(steps: &[Step]) -> Vec<&Step> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|at| (weight(&steps[*at]), std::cmp::Reverse(*at)));
    order.truncate(STEPS_MAX);
    order.sort_unstable();
    order.into_iter().map(|at| &steps[at]).collect()
}

/// Returns how informative a step is, most informative first: changes by people and failures, then controllers' writes,
/// then their consequences.
fn weight(step: &Step) -> u8 {
    let is_status =
        !step.diff.is_empty() && step.diff.changes.iter().all(|change| change.path.starts_with("status"));
    match step.kind {
        StepKind::Failure => 0,
        StepKind::Write if !step.is_automatic => 0,
        StepKind::Write if !is_status && !step.text.contains("the status of ") => 1,
        StepKind::Notice => 2,
        StepKind::Write => 3,
        StepKind::Look => 4,
    }
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(LINE_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// Returns whether a change only records the time of another one.
fn is_time(change: &FieldChange) -> bool {
    ["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"]
        .iter()
        .any(|field| change.path.ends_with(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(escape_controls("a\u{1b}[2J\nb\r\u{9b}c ä"), "a\\u{1b}[2J\nb\\u{d}\\u{9b}c ä");
    }
}
