//! Conditions and events: what others claim about an object. This is the weakest evidence, used when nothing better
//! explains the problem.

use serde_json::Value;

use super::Finding;
use super::server_words::code_of_words;
use crate::evidence::{Evidence, SeenObject};
use crate::explanation::CauseCode;

/// Conditions that are bad when false. Conditions of unknown meaning are not judged.
const GOOD: [&str; 14] = [
    "Ready",
    "Available",
    "Reconciled",
    "Synced",
    "Established",
    "NamesAccepted",
    "Progressing",
    "Healthy",
    "Handled",
    "Succeeded",
    "Accepted",
    "Programmed",
    "AbleToScale",
    "ScalingActive",
];

/// Conditions that are bad when true.
const BAD: [&str; 12] = [
    "Failed",
    "ReplicaFailure",
    "Degraded",
    "Stalled",
    "Error",
    "Denied",
    "NamespaceDeletionContentFailure",
    "NonStructuralSchema",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

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
        let text = match text("reason") {
            "FailedCreate" if object.is_a("apps", "replicasets") => {
                format!("cannot create its Pods: {}", text("message"))
            }
            _ => format!("has the condition {}={}{words}", text("type"), text("status")),
        };
        Finding::new(code_of(one), &object.key, text)
    })
}

fn is_bad(condition: &Value) -> bool {
    let is_in = |names: &[&str]| names.iter().any(|name| condition["type"] == *name);
    // A node whose state is unknown has stopped reporting.
    let is_lost = condition["type"] == "Ready" && condition["reason"] == "NodeStatusUnknown";
    condition["status"] == "False" && is_in(&GOOD) || condition["status"] == "True" && is_in(&BAD) || is_lost
}

fn code_of(condition: &Value) -> CauseCode {
    let message = condition["message"].as_str().unwrap_or_default();
    match condition["reason"].as_str().unwrap_or_default() {
        "Undecodable" => CauseCode::Undecodable,
        "FailedCreate" => code_of_words(message, None).unwrap_or(CauseCode::InvalidObject),
        _ => CauseCode::Condition,
    }
}

/// Finds that no controller has processed the newest state of an object whose status has an observed generation.
fn find_unobserved(object: &SeenObject) -> Option<Finding> {
    let generation = object.value["metadata"]["generation"].as_i64()?;
    let observed = object.value["status"]["observedGeneration"].as_i64()?;
    (observed < generation).then(|| {
        let text = format!(
            "was changed, and its controller has not looked at it since: it has seen generation {observed} of {generation}"
        );
        Finding::new(CauseCode::Unobserved, &object.key, text)
    })
}
