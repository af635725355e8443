//! The state of any other object, following Kubernetes conventions: `status.conditions`, then `status.phase`.

use serde_json::Value;

use super::StateSummary;
use super::pods::words_of;
use crate::field::seconds;

/// Conditions that should be true.
const SHOULD_BE_TRUE: &[&str] = &[
    "Ready",
    "Available",
    "Synced",
    "Healthy",
    "Established",
    "NamesAccepted",
    "Succeeded",
    "Accepted",
    "Programmed",
];
/// Conditions that should not be true.
const SHOULD_BE_FALSE: &[&str] =
    &["Failed", "Degraded", "Stalled", "Error", "Failing", "MemoryPressure", "DiskPressure"];
/// Phases that mean failure, and phases that mean something is in progress.
const BAD_PHASES: &[&str] = &["Failed", "Error", "Lost", "Unknown"];
const WAITING_PHASES: &[&str] = &["Pending", "Creating", "Provisioning", "Terminating", "Progressing"];

/// Judges an object of any kind.
pub(super) fn judge(object: &Value) -> StateSummary {
    let status = &object["status"];
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let named = |names: &'static [&str], state: &'static str| {
        conditions().find(move |one| names.iter().any(|name| one["type"] == *name) && one["status"] == state)
    };
    let from = |one: &Value, verdict: StateSummary| verdict.since(seconds(&one["lastTransitionTime"]));
    let kind_of = |one: &Value| one["type"].as_str().unwrap_or_default().to_owned();
    if let Some(one) = named(SHOULD_BE_FALSE, "True") {
        return from(one, StateSummary::bad(kind_of(one), words_of(one)));
    }
    if let Some(one) = named(SHOULD_BE_TRUE, "False") {
        return from(one, StateSummary::bad(format!("not {}", kind_of(one)), words_of(one)));
    }
    if let Some(one) = named(SHOULD_BE_TRUE, "Unknown") {
        return from(one, StateSummary::waiting(format!("{}?", kind_of(one)), words_of(one)));
    }
    let phase = status["phase"].as_str().unwrap_or_default();
    if BAD_PHASES.contains(&phase) {
        return StateSummary::bad(phase, words_of(status));
    }
    if WAITING_PHASES.contains(&phase) {
        return StateSummary::waiting(phase, words_of(status));
    }
    match named(SHOULD_BE_TRUE, "True") {
        Some(one) => from(one, StateSummary::good(kind_of(one))),
        None if phase.is_empty() => StateSummary::unknown(),
        None => StateSummary::good(phase),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check;

    #[test]
    fn conditions_and_phases_are_read_by_convention() {
        let with = |kind: &str, state: &str| json!({"status": {"conditions": [{"type": kind, "status": state, "reason": "Odd", "message": "the cloud says no"}]}});
        check("demo.dev/things", &with("Ready", "False"), "bad | not Ready | the cloud says no");
        check("demo.dev/things", &with("Ready", "True"), "good | Ready | ");
        check("demo.dev/things", &with("Ready", "Unknown"), "wait | Ready? | the cloud says no");
        check("demo.dev/things", &with("Degraded", "True"), "bad | Degraded | the cloud says no");
        check("persistentvolumeclaims", &json!({"status": {"phase": "Pending"}}), "wait | Pending | ");
        check("namespaces", &json!({"status": {"phase": "Active"}}), "good | Active | ");
        check("configmaps", &json!({"data": {}}), " |  | ");
    }
}
