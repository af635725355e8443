//! Pods without a problem: what they still wait for.

use serde_json::Value;

use super::{StateDescription, storage};
use crate::evidence::{Evidence, SeenObject};

/// Judges a Pod.
pub(super) fn assess(evidence: &Evidence, pod: &SeenObject) -> StateDescription {
    let (spec, status) = (&pod.value["spec"], &pod.value["status"]);
    let node = spec["nodeName"].as_str().unwrap_or_default();
    let is_true = |kind: &str| pod.conditions().any(|one| one["type"] == kind && one["status"] == "True");
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => {
            return StateDescription::healthy("has finished: its containers ended with exit code 0");
        }
        "Running" if is_true("Ready") => {
            return StateDescription::healthy(format!("is healthy: it runs on node {node} and is Ready"));
        }
        "Running" => return StateDescription::waiting(format!("runs on node {node}{}", unready_gate(pod))),
        _ => {}
    }
    if let Some(gate) = names(&spec["schedulingGates"]).next() {
        return StateDescription::waiting(format!("is held back by the scheduling gate {gate}"));
    }
    if let Some(claim) = pending_claim(evidence, pod) {
        return StateDescription::waiting(claim);
    }
    if node.is_empty() {
        return StateDescription::waiting("waits for a node");
    }
    if status["containerStatuses"].is_null() && status["startTime"].is_null() {
        return StateDescription::waiting(format!(
            "is assigned to node {node}, which has not reported about it yet"
        ));
    }
    let waiting = status["initContainerStatuses"].as_array().into_iter().flatten();
    let mut waiting = waiting.chain(status["containerStatuses"].as_array().into_iter().flatten());
    let container = waiting.find(|one| one["ready"] == false && one["started"] != true);
    let name = container.and_then(|one| one["name"].as_str()).map(|name| format!(": container {name}"));
    StateDescription::waiting(format!("is starting on node {node}{}", name.unwrap_or_default()))
}

fn unready_gate(pod: &SeenObject) -> String {
    let gates = pod.value["spec"]["readinessGates"].as_array().into_iter().flatten();
    let mut gates = gates.filter_map(|gate| gate["conditionType"].as_str());
    let is_true = |kind: &str| pod.conditions().any(|one| one["type"] == kind && one["status"] == "True");
    match gates.find(|gate| !is_true(gate)) {
        Some(gate) => format!(" and waits for its readiness gate: the condition {gate} is not True"),
        None => " and is not Ready yet".to_owned(),
    }
}

/// Returns a description of the claim that a Pod waits for, and why the claim is pending.
pub(crate) fn pending_claim(evidence: &Evidence, pod: &SeenObject) -> Option<String> {
    let volumes = pod.value["spec"]["volumes"].as_array().into_iter().flatten();
    let mut claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    claims.find_map(|name| {
        let claim = evidence.find_related("persistentvolumeclaims", pod.key.namespace(), name)?;
        let is_pending = claim.value["status"]["phase"] != "Bound";
        let state = storage::assess_claim(evidence, claim);
        is_pending.then(|| format!("waits for PersistentVolumeClaim {name}, which {}", state.text))
    })
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str())
}
