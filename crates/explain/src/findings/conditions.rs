//! Conditions and events: what others claim about an object. The weakest evidence, used when nothing better says why.

use serde_json::Value;

use super::Finding;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;

/// Conditions that are bad when they are false. Others of unknown meaning are not judged.
const GOOD: [&str; 9] = [
    "Ready",
    "Available",
    "Reconciled",
    "Synced",
    "Established",
    "NamesAccepted",
    "Progressing",
    "Healthy",
    "Handled",
];

/// Conditions that are bad when they are true.
const BAD: [&str; 5] = ["Failed", "ReplicaFailure", "Degraded", "Stalled", "NamespaceDeletionContentFailure"];

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let leaves = evidence.below().filter(|object| object.deleted_at().is_none());
    leaves.flat_map(|object| find_in_conditions(object).chain(find_unobserved(object))).collect()
}

fn find_in_conditions(object: &SeenObject) -> impl Iterator<Item = Finding> {
    // A Pod's own conditions repeat what its containers say.
    let is_pod = object.key.resource() == "pods";
    let bad = object.conditions().filter(move |one| !is_pod && is_bad(one));
    bad.map(|one| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let words = match (text("reason"), text("message")) {
            ("", "") => String::new(),
            (reason, "") => format!(": {reason}"),
            ("", message) => format!(": {message}"),
            (reason, message) => format!(" ({reason}): {message}"),
        };
        let text = format!("has the condition {}={}{words}", text("type"), text("status"));
        Finding::new(code_of(one), &object.key, text)
    })
}

fn is_bad(condition: &Value) -> bool {
    let is_in = |names: &[&str]| names.iter().any(|name| condition["type"] == *name);
    condition["status"] == "False" && is_in(&GOOD) || condition["status"] == "True" && is_in(&BAD)
}

fn code_of(condition: &Value) -> CauseCode {
    let message = condition["message"].as_str().unwrap_or_default();
    match condition["reason"].as_str().unwrap_or_default() {
        "Undecodable" => CauseCode::Undecodable,
        "FailedCreate" if message.contains("forbidden") => CauseCode::MissingRight,
        "FailedCreate" => CauseCode::InvalidObject,
        _ => CauseCode::Condition,
    }
}

/// Finds that no controller has processed the newest state of an object whose status has an observed generation.
fn find_unobserved(object: &SeenObject) -> Option<Finding> {
    let generation = object.value["metadata"]["generation"].as_i64()?;
    let observed = object.value["status"]["observedGeneration"].as_i64()?;
    (observed < generation).then(|| {
        let text = format!("was changed, and its controller has not looked at it since: it has seen generation {observed} of {generation}");
        Finding::new(CauseCode::Unobserved, &object.key, text)
    })
}
