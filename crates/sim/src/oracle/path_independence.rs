//! The end does not depend on the way there: who creates the objects as they are after the last step gets the same.

use super::Reference;
use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

/// What tells how an object got where it is: revisions of workloads, and what the runtime notes about handlers.
const HISTORY_FIELDS: [&str; 4] = [
    "metadata.annotations.deployment.kubernetes.io/",
    "metadata.annotations.deprecated.daemonset.template.generation",
    "status.collisionCount",
    "spec.intended",
];

const HINT: &str = "what an earlier spec left behind is not undone: look for what is no longer wanted in every run, and do not \
                    wait for the old state to become healthy before writing the new one";

/// Judges a schedule that begins with the user's objects as the reference leaves them.
pub(crate) fn judge_paths(setup: &Setup, reference: &Reference, direct: &RunRecord) -> Option<Alarm> {
    if !direct.alarms.is_empty() || !direct.scenario_end.is_reached {
        return None;
    }
    let mut differences = reference.scenario.differences(setup, &direct.scenario_end);
    differences.retain(|(object, text)| !is_history(reference, object, text));
    let (subject, _) = differences.first()?;
    let lines: Vec<String> = differences.iter().map(|(subject, text)| format!("{subject}: {text}")).collect();
    let text = format!(
        "the steps lead to another end than creating the final objects at once (expected is what the steps lead to):\n  {}",
        lines.join("\n  ")
    );
    Some(Alarm::new("path independence", subject, text).hint(HINT))
}

/// Is it the record of a former state, which only a path has? Former templates are kept for a rollback, and the runtime
/// records what its handlers have seen and what a thing outside was made as.
fn is_history(reference: &Reference, object: &str, text: &str) -> bool {
    let is_record = text.starts_with("metadata.annotations") && text.contains(".handled");
    let is_field = HISTORY_FIELDS.iter().any(|field| text.starts_with(field));
    is_record || is_field || object.starts_with("controllerrevisions.apps ") || is_former(reference, object)
}

/// Is it a ReplicaSet that a Deployment keeps without Pods?
fn is_former(reference: &Reference, object: &str) -> bool {
    let Some(set) = reference.scenario.state.get(object) else { return false };
    let owner = &set["metadata"]["ownerReferences"][0]["kind"];
    object.starts_with("replicasets.apps ") && *owner == "Deployment" && set["spec"]["replicas"] == 0
}
