//! Evicts a Pod: decides whether its disruption budget allows the eviction, charges the budget, and records the
//! eviction in the Pod.
//!
//! **Invariant:** evicting a Pod that does not serve costs nothing, but only as long as the Pod does not change: the
//! deletion must name the revision that was checked.

use homeostat_core::Clock;
use serde_json::{Value, json};

use super::pod::set_condition;
use crate::object::fill::object_or_insert;
use crate::object::read;
use crate::resource::prepare::kubernetes_now;
use crate::status::{ResourceName, Status};

/// The message for a rejected eviction.
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// When to retry if the controller has not yet observed the budget, as in Kubernetes.
const UNOBSERVED_RETRY_S: u32 = 10;
/// The maximum number of evictions that a budget's controller has not yet confirmed, as in Kubernetes.
const DISRUPTED_PODS_MAX: usize = 2000;
const CAUSE: &str = "DisruptionBudget";

/// The cost of evicting a Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum EvictionCost {
    /// Nothing, regardless of what happens to the Pod: it has finished, or no budget covers it.
    Nothing,
    /// Nothing, if the Pod has not started in the meantime.
    NotStarted,
    /// Nothing, if the Pod has not become ready in the meantime.
    NotReady,
    /// One disruption; holds the budget as it is afterwards.
    Disruption(Value),
}

/// Returns the cost of evicting the Pod, or the refusal. `budgets` contains those that select the Pod.
pub fn cost(pod: &Value, budgets: &[Value], clock: &Clock) -> Result<EvictionCost, Status> {
    let phase = read::string_at(&pod["status"], "phase");
    let is_deleting = !pod["metadata"]["deletionTimestamp"].is_null();
    if matches!(phase, "Succeeded" | "Failed") || is_deleting {
        return Ok(EvictionCost::Nothing);
    }
    if phase == "Pending" {
        return Ok(EvictionCost::NotStarted);
    }
    match budgets {
        [] => Ok(EvictionCost::Nothing),
        [budget] if !is_ready(pod) && lets_unready_go(budget) => Ok(EvictionCost::NotReady),
        [budget] => charge_budget(pod, budget, clock).map(EvictionCost::Disruption),
        _ => Err(Status::unclassified(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = read::list_at(&pod["status"], "conditions");
    conditions
        .iter()
        .any(|one| read::string_at(one, "type") == "Ready" && read::string_at(one, "status") == "True")
}

/// Returns whether the budget lets an unready Pod go: its policy always allows that, or enough other Pods are healthy.
fn lets_unready_go(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    read::string_at(&budget["spec"], "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

fn charge_budget(pod: &Value, budget: &Value, clock: &Clock) -> Result<Value, Status> {
    let number = |path: &str| read::integer_at(budget, path);
    if number("status.observedGeneration") < number("metadata.generation") {
        return Err(unobserved(budget));
    }
    let allowed = number("status.disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden(
            budget,
            "pdb disruptions allowed is negative",
            "pdb disruptions allowed is negative",
        ));
    }
    if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(budget, why, "too many pending evictions not confirmed by PDB controller"));
    }
    if allowed == 0 {
        return Err(exhausted(budget));
    }
    let mut changed = budget.clone();
    changed["status"]["disruptionsAllowed"] = json!(allowed - 1);
    // Until its deletion is observed, the Pod must not be counted as healthy.
    changed["status"]["disruptedPods"][read::string_at(&pod["metadata"], "name")] = kubernetes_now(clock);
    if allowed == 1 {
        note_exhausted(&mut changed, clock);
    }
    Ok(changed)
}

/// Records in the budget that it is used up, before its controller does.
fn note_exhausted(budget: &mut Value, clock: &Clock) {
    let Some(status) = budget.as_object_mut().and_then(|fields| object_or_insert(fields, "status")) else {
        return;
    };
    let observed = status.get("observedGeneration").cloned().unwrap_or_else(|| json!(0));
    let mut condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "message": "", "observedGeneration": observed, "lastTransitionTime": kubernetes_now(clock)});
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => match conditions.iter_mut().find(|one| one["type"] == "DisruptionAllowed") {
            Some(before) => {
                if before["status"] == "False" {
                    condition["lastTransitionTime"] = before["lastTransitionTime"].take();
                }
                *before = condition;
            }
            None => conditions.push(condition),
        },
        None => {
            status.insert("conditions".into(), json!([condition]));
        }
    }
}

/// Returns the refusal while the controller has not yet observed the budget or its Pod.
pub fn unobserved(budget: &Value) -> Status {
    let name = read::string_at(&budget["metadata"], "name");
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    Status::too_many_requests(VIOLATION, UNOBSERVED_RETRY_S).caused(CAUSE, cause, "")
}

fn forbidden(budget: &Value, why: &str, cause: &str) -> Status {
    let name = read::string_at(&budget["metadata"], "name");
    let cause = format!("The disruption budget {name} does not allow evicting pods currently: {cause}");
    let about = ResourceName { group: "policy", resource: "poddisruptionbudget", name };
    Status::forbidden(&about, why).caused(CAUSE, cause, "")
}

fn exhausted(budget: &Value) -> Status {
    let name = read::string_at(&budget["metadata"], "name");
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let conditions = read::list_at(&budget["status"], "conditions");
    let told = conditions.iter().find(|one| read::string_at(one, "type") == "DisruptionAllowed");
    let told = told.filter(|one| {
        read::string_at(one, "status") == "False" && !read::string_at(one, "message").is_empty()
    });
    let (reason, message) =
        told.map_or(("", ""), |one| (read::string_at(one, "reason"), read::string_at(one, "message")));
    let start = format!("The disruption budget {name} does not allow evicting pods currently");
    // The counts of a failed controller cannot be trusted.
    let cause = if reason == "SyncFailed" {
        format!("{start} because it failed sync: {message}")
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if told.is_some() {
        format!("{start} ({reason}): {message}")
    } else {
        start
    };
    Status::too_many_requests(VIOLATION, 0).caused(CAUSE, cause, "")
}

/// Records in the Pod why it is deleted.
pub fn note_eviction(pod: &mut Value, clock: &Clock) {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting"});
    if let Some(status) = pod.as_object_mut().and_then(|fields| object_or_insert(fields, "status")) {
        set_condition(status, condition, clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, ready: &str) -> Value {
        json!({"metadata": {"name": "p"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn refused(pod: &Value, budget: &Value) -> (u16, u32, String) {
        let refusal = cost(pod, std::slice::from_ref(budget), &Clock::system()).expect_err("refused");
        let details = refusal.details.expect("details");
        (refusal.code, details.retry_after_s, details.causes[0].message.clone())
    }

    #[test]
    fn an_eviction_spends_the_budget() {
        let clock = Clock::system();
        let pod = pod("Running", "True");
        assert_eq!(cost(&pod, &[], &clock), Ok(EvictionCost::Nothing));
        let budget = json!({"metadata": {"name": "b"}, "status": {"disruptionsAllowed": 1}});
        let Ok(EvictionCost::Disruption(spent)) = cost(&pod, &[budget], &clock) else { panic!("allowed") };
        assert_eq!(spent["status"]["disruptionsAllowed"], json!(0));
        assert!(spent["status"]["disruptedPods"]["p"].is_string());
        assert_eq!(spent["status"]["conditions"][0]["reason"], "InsufficientPods");
        let cause = "The disruption budget b needs 0 healthy pods and has 0 currently";
        assert_eq!(refused(&pod, &spent), (429, 0, cause.into()));
        let twice = cost(&pod, &[spent.clone(), spent], &clock).expect_err("two budgets");
        assert!(twice.code == 500 && twice.message.starts_with("This pod has more than one"));
    }

    #[test]
    fn a_refusal_says_why() {
        let check = |status: Value, expected: (u16, u32), cause: &str| {
            let budget = json!({"metadata": {"name": "b", "generation": 1}, "status": status});
            let (code, wait, said) = refused(&pod("Running", "True"), &budget);
            assert_eq!(((code, wait), &*said), (expected, cause), "{budget}");
        };
        check(json!({}), (429, 10), "The disruption budget b is still being processed by the server.");
        check(
            json!({"observedGeneration": 1, "disruptionsAllowed": -1}),
            (403, 0),
            "The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative",
        );
        let told = |reason: &str| {
            json!({"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "conditions":
                [{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "why"}]})
        };
        let start = "The disruption budget b does not allow evicting pods currently";
        check(told("SyncFailed"), (429, 0), &format!("{start} because it failed sync: why"));
        check(told("Other"), (429, 0), &format!("{start} (Other): why"));
        check(json!({"observedGeneration": 1, "currentHealthy": 2}), (429, 0), start);
    }

    #[test]
    fn what_does_not_serve_may_go_while_others_do() {
        let check = |pod: Value, budget: Value, expected: Option<EvictionCost>| {
            let found = cost(&pod, std::slice::from_ref(&budget), &Clock::system()).ok();
            assert_eq!(found, expected, "{pod} {budget}");
        };
        let budget = |policy: &str, healthy: i64, desired: i64| {
            json!({"spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"currentHealthy": healthy, "desiredHealthy": desired}})
        };
        check(pod("Pending", "False"), budget("", 0, 1), Some(EvictionCost::NotStarted));
        check(pod("Failed", "False"), budget("", 0, 1), Some(EvictionCost::Nothing));
        check(pod("Running", "False"), budget("", 1, 1), Some(EvictionCost::NotReady));
        check(pod("Running", "False"), budget("IfHealthyBudget", 0, 1), None);
        check(pod("Running", "False"), budget("IfHealthyBudget", 0, 0), None);
        check(pod("Running", "False"), budget("AlwaysAllow", 0, 1), Some(EvictionCost::NotReady));
        check(pod("Running", "True"), budget("AlwaysAllow", 1, 1), None);
    }

    #[test]
    fn an_evicted_pod_says_so_once() {
        let mut pod = pod("Running", "True");
        note_eviction(&mut pod, &Clock::system());
        let noted = pod.clone();
        assert_eq!(noted["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
        note_eviction(&mut pod, &Clock::system());
        assert_eq!(pod, noted);
    }
}
