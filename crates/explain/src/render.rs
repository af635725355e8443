//! An explanation as text: the summary on top, then other causes, what happened, what it waits for, what was not seen.

use std::fmt::Write as _;

use homeostat_core::field_diff::FieldChange;

use crate::explanation::{Explanation, Step, StepKind};
use crate::times;

/// The steps that are shown: the last ones say most, and a screen has some forty lines.
const STEPS_MAX: usize = 25;

/// The fields that are shown of a step.
const CHANGES_MAX: usize = 6;

/// The fields that are shown of a step that only changed a status, which follows from something else.
const STATUS_CHANGES_MAX: usize = 3;

/// Returns the explanation as text for people, ending in a newline.
pub fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for line in &explanation.summary {
        let _ = writeln!(text, "{line}");
    }
    let others: Vec<&str> = explanation.causes.iter().skip(1).map(|cause| cause.text.as_str()).collect();
    section(&mut text, "Also", others.iter().map(|cause| (*cause).to_owned()));
    let skipped = explanation.timeline.len().saturating_sub(STEPS_MAX);
    let more = (skipped > 0).then(|| format!("({skipped} earlier steps are left out; --json has all)"));
    let steps = explanation.timeline.iter().skip(skipped).map(|step| describe_step(explanation, step));
    section(&mut text, "What happened", more.into_iter().chain(steps));
    section(&mut text, "What it waits for", explanation.waits.iter().cloned());
    section(&mut text, "Not seen", explanation.gaps.iter().cloned());
    text
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
    let mut text = format!("{mark} {clock} {when:>10}  {} {}{times}", step.actor, step.text);
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

/// Returns whether a change only says when another one happened.
fn is_time(change: &FieldChange) -> bool {
    ["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"]
        .iter()
        .any(|field| change.path.ends_with(field))
}
