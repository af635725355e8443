//! The end does not depend on the way there: who creates the objects as they are after the last step gets the same.

use super::Reference;
use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

const HINT: &str = "what an earlier spec left behind is not undone: look for what is no longer wanted in every run, and do not \
                    wait for the old state to become healthy before writing the new one";

/// Judges a schedule that begins with the user's objects as the reference leaves them.
pub(crate) fn judge_paths(setup: &Setup, reference: &Reference, direct: &RunRecord) -> Option<Alarm> {
    if !direct.alarms.is_empty() || !direct.scenario_end.is_reached {
        return None;
    }
    let mut differences = reference.scenario.differences(setup, &direct.scenario_end);
    differences.retain(|(_, text)| !is_record(text));
    let (subject, _) = differences.first()?;
    let lines: Vec<String> = differences.iter().map(|(subject, text)| format!("{subject}: {text}")).collect();
    let text = format!(
        "the steps lead to another end than creating the final objects at once (expected is what the steps lead to):\n  {}",
        lines.join("\n  ")
    );
    Some(Alarm::new("path independence", subject, text).hint(HINT))
}

/// Is it what the runtime notes of a path: what its handlers have seen, and what a thing outside was made as?
fn is_record(text: &str) -> bool {
    text.starts_with("spec.intended")
        || (text.starts_with("metadata.annotations") && text.contains(".handled"))
}
