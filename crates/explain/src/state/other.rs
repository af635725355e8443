//! Every other kind, following Kubernetes conventions: conditions, the phase, the generation that its controller has
//! observed; then the journals of operators.

use homeostat_core::journal::Entry;

use super::StateDescription;
use crate::evidence::{Evidence, SeenObject};
use crate::sentences::after_colon;
use crate::times;

/// Conditions that mean all is well when true, the most telling first.
const GOOD: [&str; 11] = [
    "Ready",
    "Available",
    "Healthy",
    "Complete",
    "Succeeded",
    "Established",
    "Programmed",
    "Synced",
    "Reconciled",
    "Accepted",
    "ScalingActive",
];

/// Phases that mean all is well.
const GOOD_PHASES: [&str; 6] = ["Active", "Bound", "Available", "Ready", "Running", "Succeeded"];

/// Kinds that hold data or rules, on which no controller acts.
const WITHOUT_STATE: [&str; 24] = [
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "storageclasses",
    "ingressclasses",
    "priorityclasses",
    "runtimeclasses",
    "limitranges",
    "networkpolicies",
    "podtemplates",
    "controllerrevisions",
    "events",
    "endpoints",
    "endpointslices",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "csidrivers",
];

/// Judges an object of any kind.
pub(super) fn assess(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let status = &object.value["status"];
    let named = |state: &'static str| {
        GOOD.iter().find_map(move |name| {
            object.conditions().find(|one| one["type"] == *name && one["status"] == state)
        })
    };
    let say = |one: &serde_json::Value| {
        let kind = one["type"].as_str().unwrap_or_default().to_owned();
        kind + &after_colon(one["message"].as_str().unwrap_or_default())
    };
    if let Some(one) = named("True") {
        return StateDescription::healthy(format!("is healthy: its status says {}", say(one)));
    }
    if let Some(one) = named("Unknown") {
        return StateDescription::waiting(format!("is not finished: its status does not know {}", say(one)));
    }
    match status["phase"].as_str().filter(|phase| !phase.is_empty()) {
        Some(phase) if GOOD_PHASES.contains(&phase) => {
            return StateDescription::healthy(format!("is healthy: its phase is {phase}"));
        }
        Some(phase) => {
            let words = status["message"].as_str().or_else(|| status["reason"].as_str());
            return StateDescription::waiting(format!(
                "is in the phase {phase}{}",
                after_colon(words.unwrap_or_default())
            ));
        }
        None => {}
    }
    if let Some(state) = from_last_run(evidence, object) {
        return state;
    }
    if is_built_in(object) && WITHOUT_STATE.contains(&object.key.resource()) {
        return StateDescription::unknown(format!(
            "exists; no controller acts on a {}, so it has no state",
            object.kind
        ));
    }
    from_watchers(evidence, object)
}

/// Returns how the last run of a controller on the object ended, if it succeeded. Failed runs are reported as problems.
fn from_last_run(evidence: &Evidence, object: &SeenObject) -> Option<StateDescription> {
    let records: Vec<_> = evidence.records().map(|(_, record)| record).collect();
    let last = records.iter().rev().find(|record| record.entry.object() == Some(&object.key))?;
    let settled = records.iter().rev().find(
        |record| matches!(&record.entry, Entry::Settled { object: settled, .. } if *settled == object.key),
    );
    match settled {
        Some(record) => Some(StateDescription::healthy(format!(
            "is healthy: the controller {} looked at it {} and found nothing left to do",
            record.source,
            times::both(evidence.now, record.at)
        ))),
        None => Some(StateDescription::waiting(format!(
            "waits for the controller {}, which noticed it {} and has not finished",
            last.source,
            times::both(evidence.now, last.at)
        ))),
    }
}

/// Returns what is known about the operators that should act on it.
fn from_watchers(evidence: &Evidence, object: &SeenObject) -> StateDescription {
    let status = &object.value["status"];
    let kind = &object.kind;
    if let Some(seen) = status["observedGeneration"].as_i64() {
        return StateDescription::unknown(format!(
            "has no known state: its controller has seen its newest generation ({seen}) and reports nothing else"
        ));
    }
    let watcher = evidence.records().find(|(_, record)| matches!(record.entry, Entry::Watched { .. }));
    if let Some((operator, _)) = watcher {
        return StateDescription::unknown(format!(
            "has no known state: the operator {operator} watches this kind and has not looked at it"
        ));
    }
    let has_status = status.as_object().is_some_and(|status| !status.is_empty());
    let reported = if has_status { "its status has no conditions" } else { "its status is empty" };
    if is_built_in(object) {
        return StateDescription::unknown(format!(
            "has no known state: {reported}, and no controller was seen at work on it"
        ));
    }
    let manager = evidence.definition_managers.iter().find(|manager| {
        evidence.leases.iter().any(|lease| crate::leases::operator_of(lease) == Some(manager.as_str()))
    });
    match manager {
        Some(operator) => StateDescription::unknown(format!(
            "has no known state: {reported}, and the operator {operator}, which defines {kind}, has told nothing about it"
        )),
        None => StateDescription::unknown(format!(
            "has no known state: nothing here is known to watch {kind} objects (no operator announced itself), and {reported}"
        )),
    }
}

fn is_built_in(object: &SeenObject) -> bool {
    let group = object.key.group();
    !group.contains('.') || group.ends_with(".k8s.io")
}
