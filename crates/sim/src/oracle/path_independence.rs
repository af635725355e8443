//! The end does not depend on the path: creating the objects as they are after the last step leads to the same end.

use super::ReferenceRun;
use crate::alarm::Alarm;
use crate::engine::{RunRecord, SettledEnd, Setup};
use crate::object::read_object;
use crate::state::shown_key;

const HINT: &str = "what an earlier spec left behind is not undone: look for what is no longer wanted in every run, and do not \
                    wait for the old state to become healthy before writing the new one";

/// Judges a schedule that starts with the user's objects as they are at the end of the reference.
pub(crate) fn judge_paths(setup: &Setup, reference: &ReferenceRun, direct: &RunRecord) -> Option<Alarm> {
    if !direct.alarms.is_empty() || !direct.scenario_end.is_reached {
        return None;
    }
    let mut differences = reference.scenario.differences(setup, &direct.scenario_end);
    let generations = |object: &str| {
        let ends = [&reference.record.scenario_end, &direct.scenario_end];
        ends.map(|end| generation_of(end, object))
    };
    differences.retain(|(object, text)| !is_record(text) && !is_generation(text, generations(object)));
    let (subject, _) = differences.first()?;
    let lines: Vec<String> = differences.iter().map(|(subject, text)| format!("{subject}: {text}")).collect();
    let text = format!(
        "the steps lead to another end than creating the final objects directly (expected is where the steps lead):\n  {}",
        lines.join("\n  ")
    );
    Some(Alarm::new("path independence", subject, text).hint(HINT))
}

/// Returns whether a difference is in the runtime's own records, which depend on the path: the state that handlers have
/// seen, and the intent with which an external resource was created.
fn is_record(text: &str) -> bool {
    text.starts_with("spec.intended")
        || (text.starts_with("metadata.annotations") && text.contains(".handled"))
}

/// Returns whether a difference is between two reported generations, under whichever name: every edit is one more.
fn is_generation(text: &str, generations: [Option<i64>; 2]) -> bool {
    let [Some(expected), Some(actual)] = generations else { return false };
    let is_status = text.starts_with("status.") || text.starts_with("metadata.annotations");
    let number = format!(": expected {expected}, is {actual}");
    let quoted = format!(": expected \"{expected}\", is \"{actual}\"");
    is_status && (text.ends_with(&number) || text.ends_with(&quoted))
}

fn generation_of(end: &SettledEnd, object: &str) -> Option<i64> {
    let entry = end.snapshot.iter().find(|entry| shown_key(&entry.key) == object)?;
    read_object(&entry.bytes)?["metadata"]["generation"].as_i64()
}
