//! Computes a PodDisruptionBudget's status from its Pods and how many there should be. This module is pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::controllers::numbers::{Rounding, as_count, resolve_percentage};
use crate::controllers::partial_pod::PartialPod;
use crate::controllers::time::whole_second;

/// How long a granted eviction may take to become a deletion: the same as in Kubernetes.
const EVICTION: Duration = Duration::from_secs(2 * 60);
const CONDITION: &str = "DisruptionAllowed";

/// Where the number of expected Pods comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedPodsBasis {
    /// The budget has no limit.
    Nothing,
    /// The Pods that exist.
    Pods,
    /// The number that their owners want.
    Scale,
}

pub(super) fn basis(budget: &PodDisruptionBudget) -> ExpectedPodsBasis {
    let asked = budget.spec.as_ref().map(|spec| (&spec.max_unavailable, &spec.min_available));
    match asked {
        Some((Some(_), _) | (None, Some(IntOrString::String(_)))) => ExpectedPodsBasis::Scale,
        Some((None, Some(IntOrString::Int(_)))) => ExpectedPodsBasis::Pods,
        Some((None, None)) | None => ExpectedPodsBasis::Nothing,
    }
}

/// Returns the status of a budget for these Pods, of which `expected` should exist.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[Arc<PartialPod>],
    expected: i32,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let before = budget.status.as_ref();
    let leaving = before.and_then(|status| status.disrupted_pods.as_ref());
    let leaving = leaving.map(|noted| still_leaving(noted, pods, now)).unwrap_or_default();
    let is_healthy =
        |pod: &PartialPod| pod.is_ready() && !pod.is_dying() && !leaving.contains_key(pod.name());
    let healthy = as_count(pods.iter().filter(|pod| is_healthy(pod)).count());
    let desired = budget.spec.as_ref().map(|spec| desired(spec, expected)).unwrap_or_default();
    // Without Pods no eviction is allowed, so that the first Pods are protected before we see them.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let said = before.and_then(|status| status.conditions.clone()).unwrap_or_default();
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(said, allowed > 0, budget.metadata.generation, now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        disrupted_pods: (!leaving.is_empty()).then_some(leaving),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: budget.metadata.generation,
    }
}

fn desired(spec: &PodDisruptionBudgetSpec, expected: i32) -> i32 {
    match &spec.max_unavailable {
        Some(most) => expected.saturating_sub(resolve_percentage(Some(most), expected, Rounding::Up)).max(0),
        None => resolve_percentage(spec.min_available.as_ref(), expected, Rounding::Up),
    }
}

/// Returns the Pods whose eviction was granted recently and that are not being deleted yet.
fn still_leaving(
    noted: &BTreeMap<String, Time>,
    pods: &[Arc<PartialPod>],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let here = pods.iter().filter(|pod| !pod.is_dying());
    let noted = here.filter_map(|pod| noted.get_key_value(pod.name()));
    let fresh = noted.filter(|(_, since)| !time_left(since, now).is_zero());
    fresh.map(|(name, since)| (name.clone(), since.clone())).collect()
}

/// Returns how much longer an eviction granted at `since` counts as in progress.
fn time_left(since: &Time, now: Timestamp) -> Duration {
    EVICTION.saturating_sub(Duration::try_from(now.duration_since(since.0)).unwrap_or_default())
}

/// Returns the time until the first eviction in progress expires.
pub(super) fn next_expiry(status: &PodDisruptionBudgetStatus, now: Timestamp) -> Option<Duration> {
    status.disrupted_pods.as_ref()?.values().map(|since| time_left(since, now)).min()
}

fn conditions(
    mut all: Vec<Condition>,
    is_allowed: bool,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let (status, reason) =
        if is_allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let place = all.iter().position(|one| one.type_ == CONDITION);
    let before = place.map(|place| all.remove(place)).filter(|one| one.status == status);
    let condition = Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: before.map_or_else(|| whole_second(now), |one| one.last_transition_time),
        observed_generation,
    };
    all.insert(place.unwrap_or(all.len()), condition);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn budget(spec: Value, disrupted: Value) -> PodDisruptionBudget {
        let status = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
            "disruptedPods": disrupted});
        serde_json::from_value(json!({"metadata": {"generation": 3}, "spec": spec, "status": status}))
            .unwrap()
    }

    /// Parses Pods: `r` is a ready Pod, `u` one that is not, `d` a ready one that is being deleted; they are named by
    /// their position.
    fn pods(text: &str) -> Vec<Arc<PartialPod>> {
        let pod = |(place, text): (usize, char)| {
            let ready = if text == 'u' { "False" } else { "True" };
            let deleted = (text == 'd').then_some("2027-01-15T08:00:00Z");
            let pod = json!({"metadata": {"name": place.to_string(), "deletionTimestamp": deleted},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        text.chars().enumerate().map(pod).collect()
    }

    /// `numbers` are healthy, desired and allowed.
    #[track_caller]
    fn check(spec: Value, text: &str, expected: i32, numbers: [i32; 3]) {
        let now = Timestamp::from_second(NOW).unwrap();
        let status = status(&budget(spec, json!({})), &pods(text), expected, now);
        let found = [status.current_healthy, status.desired_healthy, status.disruptions_allowed];
        assert_eq!(found, numbers.map(Some));
        assert_eq!((status.expected_pods, status.observed_generation), (Some(expected), Some(3)));
        let condition = &status.conditions.unwrap()[0];
        let allowed = ("True", "SufficientPods");
        let expected = if numbers[2] > 0 { allowed } else { ("False", "InsufficientPods") };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), expected);
    }

    #[test]
    fn numbers() {
        check(json!({"minAvailable": 1}), "rr", 2, [2, 1, 1]);
        check(json!({"minAvailable": 1}), "ru", 2, [1, 1, 0]);
        check(json!({"minAvailable": 1}), "rd", 2, [1, 1, 0]);
        check(json!({"minAvailable": 5}), "rr", 2, [2, 5, 0]);
        check(json!({"minAvailable": 0}), "", 0, [0, 0, 0]);
        check(json!({"minAvailable": "50%"}), "rrr", 3, [3, 2, 1]);
        check(json!({"minAvailable": "100%"}), "rrr", 3, [3, 3, 0]);
        check(json!({"minAvailable": "0%"}), "rru", 3, [2, 0, 2]);
        check(json!({"maxUnavailable": 1}), "rrr", 3, [3, 2, 1]);
        check(json!({"maxUnavailable": 1}), "rru", 3, [2, 2, 0]);
        check(json!({"maxUnavailable": 9}), "rr", 2, [2, 0, 2]);
        check(json!({"maxUnavailable": 0}), "rr", 2, [2, 2, 0]);
        check(json!({"maxUnavailable": "30%"}), "rrrr", 4, [4, 2, 2]);
        // More Pods than the owner wants, as in a rollout.
        check(json!({"maxUnavailable": 1}), "rrrr", 3, [4, 2, 2]);
        check(json!({}), "rr", 0, [2, 0, 0]);
    }

    #[test]
    fn bases() {
        let check = |spec, expected| assert_eq!(basis(&budget(spec, json!({}))), expected);
        check(json!({}), ExpectedPodsBasis::Nothing);
        check(json!({"minAvailable": 1}), ExpectedPodsBasis::Pods);
        check(json!({"minAvailable": "10%"}), ExpectedPodsBasis::Scale);
        check(json!({"maxUnavailable": 1}), ExpectedPodsBasis::Scale);
        check(json!({"maxUnavailable": "10%"}), ExpectedPodsBasis::Scale);
    }

    #[test]
    fn evictions_under_way_do_not_count_for_two_minutes() {
        let now = Timestamp::from_second(NOW).unwrap();
        let noted = json!({"0": "2027-01-15T07:59:00Z", "1": "2027-01-15T07:58:00Z", "2": "2027-01-15T08:00:00Z",
            "gone": "2027-01-15T08:00:00Z"});
        let status = status(&budget(json!({"minAvailable": 1}), noted), &pods("rrdr"), 4, now);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(2), Some(1)));
        assert_eq!(status.disrupted_pods.as_ref().unwrap().keys().collect::<Vec<_>>(), ["0"]);
        assert_eq!(next_expiry(&status, now), Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_is_true_already_is_not_said_again() {
        let at = |second| Timestamp::from_second(NOW + second).unwrap();
        let mut budget = budget(json!({"minAvailable": 1}), json!({}));
        let first = status(&budget, &pods("rr"), 2, at(0));
        budget.status = Some(first.clone());
        assert_eq!(status(&budget, &pods("rr"), 2, at(9)), first);
        let then = status(&budget, &pods("ru"), 2, at(9)).conditions.unwrap();
        assert_eq!((then.len(), then[0].last_transition_time.0), (1, at(9)));
    }
}
