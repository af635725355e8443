//! Evicting a Pod: whether the budget that guards it allows that, what the budget pays, what the Pod says when it goes.
//!
//! **Invariant:** a Pod that does not serve costs nothing, but only as long as it is as it was seen: who deletes it holds
//! on to the version that was judged.

use homeostat_core::Clock;
use serde_json::{Value, json};

use super::pod::set_condition;
use crate::kinds::fill::{at, items, made, text};
use crate::kinds::prepare::now;
use crate::status::{About, Status};

/// What a refused eviction is told.
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// When to ask again about a budget whose controller has not seen it yet: Kubernetes' own.
const UNOBSERVED_RETRY_S: u32 = 10;
/// Evictions a budget's controller may still have to confirm: Kubernetes' own.
const DISRUPTED_PODS_MAX: usize = 2000;
const CAUSE: &str = "DisruptionBudget";

/// What it costs to evict a Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// Nothing, whatever the Pod becomes: it is over, or nobody guards it.
    Nothing,
    /// Nothing, if the Pod has not started since.
    NotStarted,
    /// Nothing, if the Pod has not become ready since.
    NotReady,
    /// A disruption: this is the budget after it.
    Disruption(Value),
}

/// What evicting the Pod costs, or the refusal. `budgets` are those that select it.
pub fn cost(pod: &Value, budgets: &[Value], clock: &Clock) -> Result<Cost, Status> {
    let phase = text(at(pod, &["status"]), "phase");
    let is_deleting = !at(pod, &["metadata", "deletionTimestamp"]).is_null();
    if matches!(phase, "Succeeded" | "Failed") || is_deleting {
        return Ok(Cost::Nothing);
    }
    if phase == "Pending" {
        return Ok(Cost::NotStarted);
    }
    match budgets {
        [] => Ok(Cost::Nothing),
        [budget] if !is_ready(pod) && lets_unready_go(budget) => Ok(Cost::NotReady),
        [budget] => spend(pod, budget, clock).map(Cost::Disruption),
        _ => Err(Status::unclassified(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = items(at(pod, &["status"]), "conditions");
    conditions.iter().any(|one| text(one, "type") == "Ready" && text(one, "status") == "True")
}

/// A Pod that is not ready is not among those the budget counts; it may go when enough others are healthy.
fn lets_unready_go(budget: &Value) -> bool {
    let number = |field: &str| at(budget, &["status", field]).as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    text(at(budget, &["spec"]), "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

fn spend(pod: &Value, budget: &Value, clock: &Clock) -> Result<Value, Status> {
    let number = |path: &[&str]| at(budget, path).as_i64().unwrap_or(0);
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Err(unobserved(budget));
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed < 0 {
        return Err(forbidden(
            budget,
            "pdb disruptions allowed is negative",
            "pdb disruptions allowed is negative",
        ));
    }
    if at(budget, &["status", "disruptedPods"])
        .as_object()
        .is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX)
    {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(budget, why, "too many pending evictions not confirmed by PDB controller"));
    }
    if allowed == 0 {
        return Err(exhausted(budget));
    }
    let mut changed = budget.clone();
    changed["status"]["disruptionsAllowed"] = json!(allowed - 1);
    // Until its deletion is seen, the Pod must not be counted as healthy.
    changed["status"]["disruptedPods"][text(at(pod, &["metadata"]), "name")] = now(clock);
    if allowed == 1 {
        note_exhausted(&mut changed, clock);
    }
    Ok(changed)
}

/// The budget says itself that it is spent, before its controller does.
fn note_exhausted(budget: &mut Value, clock: &Clock) {
    let Some(status) = budget.as_object_mut().and_then(|fields| made(fields, "status")) else { return };
    let observed = status.get("observedGeneration").cloned().unwrap_or_else(|| json!(0));
    let mut condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "message": "", "observedGeneration": observed, "lastTransitionTime": now(clock)});
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

/// The refusal while the budget, or the Pod it guards, is not yet seen as it is.
pub fn unobserved(budget: &Value) -> Status {
    let name = text(at(budget, &["metadata"]), "name");
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    Status::too_many_requests(VIOLATION, UNOBSERVED_RETRY_S).caused(CAUSE, cause, "")
}

fn forbidden(budget: &Value, why: &str, cause: &str) -> Status {
    let name = text(at(budget, &["metadata"]), "name");
    let cause = format!("The disruption budget {name} does not allow evicting pods currently: {cause}");
    let about = About { group: "policy", resource: "poddisruptionbudget", name };
    Status::forbidden(&about, why).caused(CAUSE, cause, "")
}

fn exhausted(budget: &Value) -> Status {
    let name = text(at(budget, &["metadata"]), "name");
    let number = |field: &str| at(budget, &["status", field]).as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let conditions = items(at(budget, &["status"]), "conditions");
    let told = conditions.iter().find(|one| text(one, "type") == "DisruptionAllowed");
    let told = told.filter(|one| text(one, "status") == "False" && !text(one, "message").is_empty());
    let (reason, message) = told.map_or(("", ""), |one| (text(one, "reason"), text(one, "message")));
    let start = format!("The disruption budget {name} does not allow evicting pods currently");
    // Counts of a controller that failed are not to be trusted.
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

/// The Pod says why it goes.
pub fn note_eviction(pod: &mut Value, clock: &Clock) {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting"});
    if let Some(status) = pod.as_object_mut().and_then(|fields| made(fields, "status")) {
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
        assert_eq!(cost(&pod, &[], &clock), Ok(Cost::Nothing));
        let budget = json!({"metadata": {"name": "b"}, "status": {"disruptionsAllowed": 1}});
        let Ok(Cost::Disruption(spent)) = cost(&pod, &[budget], &clock) else { panic!("allowed") };
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
        let check = |pod: Value, budget: Value, expected: Option<Cost>| {
            let judged = cost(&pod, std::slice::from_ref(&budget), &Clock::system()).ok();
            assert_eq!(judged, expected, "{pod} {budget}");
        };
        let budget = |policy: &str, healthy: i64, desired: i64| {
            json!({"spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"currentHealthy": healthy, "desiredHealthy": desired}})
        };
        check(pod("Pending", "False"), budget("", 0, 1), Some(Cost::NotStarted));
        check(pod("Failed", "False"), budget("", 0, 1), Some(Cost::Nothing));
        check(pod("Running", "False"), budget("", 1, 1), Some(Cost::NotReady));
        check(pod("Running", "False"), budget("IfHealthyBudget", 0, 1), None);
        check(pod("Running", "False"), budget("IfHealthyBudget", 0, 0), None);
        check(pod("Running", "False"), budget("AlwaysAllow", 0, 1), Some(Cost::NotReady));
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
