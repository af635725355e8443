//! What can be done to a Pod beside changing it: binding it to a node, evicting it, adding ephemeral containers,
//! resizing it.

use homeostat_core::Clock;
use serde_json::{Value, json};

use crate::kinds::fill::{Fields, at, is_zero, items, made, text};
use crate::kinds::prepare::{keep, now};
use crate::status::{About, Status};

/// What a refused eviction is told.
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// When to ask again about a budget whose controller has not seen it yet: Kubernetes' own.
const UNOBSERVED_RETRY_S: u32 = 10;

/// The Pod after `pods/binding`: assigned to a node, once.
pub fn bind(stored: &Value, binding: &Value, clock: &Clock) -> Result<Value, Status> {
    let name = text(at(stored, &["metadata"]), "name");
    let refused =
        |why: &str| Err(Status::conflict(&About { group: "", resource: "pods/binding", name }, why));
    let node = text(at(binding, &["target"]), "name");
    let before = text(at(stored, &["spec"]), "nodeName");
    if !at(stored, &["metadata", "deletionTimestamp"]).is_null() {
        return refused(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !before.is_empty() {
        return refused(&format!("pod {name} is already assigned to node {before:?}"));
    }
    if !items(at(stored, &["spec"]), "schedulingGates").is_empty() {
        return refused(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = stored.clone();
    if let Some(fields) = pod.as_object_mut() {
        assign(fields, binding, node, clock);
    }
    Ok(pod)
}

fn assign(pod: &mut Fields, binding: &Value, node: &str, clock: &Clock) {
    if let Some(spec) = made(pod, "spec") {
        spec.insert("nodeName".into(), json!(node));
    }
    for name in ["annotations", "labels"] {
        let Some(added) = at(binding, &["metadata", name]).as_object().filter(|added| !added.is_empty())
        else {
            continue;
        };
        if let Some(present) = made(pod, "metadata").and_then(|metadata| made(metadata, name)) {
            present.extend(added.clone());
        }
    }
    let Some(status) = made(pod, "status") else { return };
    status.remove("nominatedNodeName");
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now(clock)});
    match status.get_mut("conditions") {
        Some(Value::Array(conditions)) => {
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(scheduled);
        }
        _ => {
            status.insert("conditions".into(), json!([scheduled]));
        }
    }
}

/// The budget after an eviction, or the refusal. `budgets` are those that select the Pod; without any the Pod may go.
/// A Pod that is not running does not count and may always go.
pub fn evicted(pod: &Value, budgets: &[Value], clock: &Clock) -> Result<Option<Value>, Status> {
    let phase = text(at(pod, &["status"]), "phase");
    if matches!(phase, "Pending" | "Succeeded" | "Failed")
        || !at(pod, &["metadata", "deletionTimestamp"]).is_null()
    {
        return Ok(None);
    }
    let budget = match budgets {
        [] => return Ok(None),
        [budget] => budget,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let number = |path: &[&str]| at(budget, path).as_i64().unwrap_or(0);
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Err(unobserved(budget));
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed < 1 {
        return Err(exhausted(budget));
    }
    let mut changed = budget.clone();
    changed["status"]["disruptionsAllowed"] = json!(allowed - 1);
    // Until its deletion is seen, the Pod must not be counted as healthy.
    changed["status"]["disruptedPods"][text(at(pod, &["metadata"]), "name")] = now(clock);
    Ok(Some(changed))
}

fn unobserved(budget: &Value) -> Status {
    let name = text(at(budget, &["metadata"]), "name");
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    Status::too_many_requests(VIOLATION, UNOBSERVED_RETRY_S).caused("DisruptionBudget", cause, "")
}

fn exhausted(budget: &Value) -> Status {
    let number = |field: &str| at(budget, &["status", field]).as_i64().unwrap_or(0);
    let cause = format!(
        "The disruption budget {} needs {} healthy pods and has {} currently",
        text(at(budget, &["metadata"]), "name"),
        number("desiredHealthy"),
        number("currentHealthy")
    );
    Status::too_many_requests(VIOLATION, 0).caused("DisruptionBudget", cause, "")
}

/// The Pod after `pods/ephemeralcontainers`: only those of the body.
pub fn ephemeral_containers(stored: &Value, body: &Value) -> Value {
    let mut pod = stored.clone();
    let wanted = at(body, &["spec", "ephemeralContainers"]);
    if let Some(spec) = pod.as_object_mut().and_then(|fields| made(fields, "spec")) {
        if is_zero(Some(wanted)) {
            spec.remove("ephemeralContainers");
        } else {
            spec.insert("ephemeralContainers".into(), wanted.clone());
        }
    }
    pod
}

/// The Pod after `pods/resize`: the resources and resize policies of the body, container by container.
pub fn resize(stored: &Value, body: &Value) -> Value {
    let mut pod = stored.clone();
    for list in ["containers", "initContainers"] {
        let wanted = items(at(body, &["spec"]), list);
        let present = pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in present.filter_map(Value::as_object_mut) {
            let name = container.get("name").cloned().unwrap_or_default();
            if let Some(source) = wanted.iter().find(|one| one["name"] == name) {
                keep(container, source, "resources");
                keep(container, source, "resizePolicy");
            }
        }
    }
    if let Some(spec) = pod.as_object_mut().and_then(|fields| made(fields, "spec")) {
        keep(spec, at(body, &["spec"]), "resources");
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once() {
        let stored = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        let binding =
            json!({"metadata": {"annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}});
        let clock = Clock::system();
        let pod = bind(&stored, &binding, &clock).expect("free");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["status"]["conditions"][0]["status"], "True");
        let refusal = bind(&pod, &binding, &clock).expect_err("bound already");
        assert_eq!((refusal.code, refusal.reason), (409, "Conflict"));
        assert!(refusal.message.ends_with("pod p is already assigned to node \"n\""), "{}", refusal.message);
    }

    #[test]
    fn an_eviction_spends_the_budget() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Running"}});
        let evicted = |budgets: &[Value]| evicted(&pod, budgets, &Clock::system());
        let wait = |refusal: &Status| refusal.details.as_ref().expect("details").retry_after_s;
        assert_eq!(evicted(&[]), Ok(None));
        let budget = json!({"metadata": {"name": "b"}, "status": {"disruptionsAllowed": 1}});
        let spent = evicted(&[budget]).expect("allowed").expect("a budget");
        assert_eq!(spent["status"]["disruptionsAllowed"], json!(0));
        assert!(spent["status"]["disruptedPods"]["p"].is_string());
        let refusal = evicted(&[spent]).expect_err("spent");
        assert_eq!((refusal.code, wait(&refusal)), (429, 0));
        let unseen = json!({"metadata": {"name": "b", "generation": 2},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 1}});
        let refusal = evicted(&[unseen]).expect_err("not seen yet");
        assert_eq!((refusal.code, wait(&refusal)), (429, 10));
    }

    #[test]
    fn a_resize_touches_resources_only() {
        let stored = json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": {}}]}});
        let body = json!({"spec": {"containers": [{"name": "a", "image": "y", "resources": {"limits": {"cpu": "1"}}}]}});
        let pod = resize(&stored, &body);
        assert_eq!(
            pod["spec"]["containers"],
            json!([{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}])
        );
    }
}
