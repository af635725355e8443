//! An explanation as text: the summary on top, then other causes, what happened, what it waits for, what was not seen.

use std::fmt::Write as _;

use crate::explanation::{Explanation, Step};
use crate::times;

/// The steps that are shown: the last ones say most, and a screen has some forty lines.
const STEPS_MAX: usize = 25;

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
        let _ = writeln!(text, "  {}", line.replace('\n', "\n    "));
    }
}

fn describe_step(explanation: &Explanation, step: &Step) -> String {
    let times = if step.times > 1 { format!(" ({}×)", step.times) } else { String::new() };
    let mark = if step.is_failure { "✗" } else { "·" };
    let when = times::relative(explanation.at, step.at);
    let clock = times::clock(explanation.at, step.at);
    let mut text = format!("{mark} {clock} {when:>10}  {} {}{times}", step.actor, step.text);
    for change in &step.diff.changes {
        let _ = write!(text, "\n    {change}");
    }
    if step.diff.omitted > 0 {
        let _ = write!(text, "\n    and {} more fields", step.diff.omitted);
    }
    text
}
