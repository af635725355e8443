//! Decides which taints of a Node a Pod tolerates, and for how long. This module is pure.
//!
//! It is shared by Pod eviction, the DaemonSets and the scheduler. The comparing operators (`Gt`, `Lt`) are alpha in
//! Kubernetes and off by default; here they tolerate nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

/// Returns the taints of a Node.
pub(crate) fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns whether some toleration covers the taint.
pub(crate) fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    matching_toleration(taint, tolerations).is_some()
}

/// Returns whether the taint keeps Pods without a toleration from being scheduled.
pub(crate) fn keeps_pods_away(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Returns how long the Pod may stay with these `NoExecute` taints: zero if it does not tolerate one of them at all,
/// `None` if it may stay forever.
pub(crate) fn time_tolerated(taints: &[&Taint], tolerations: &[Toleration]) -> Option<Duration> {
    let mut shortest = None;
    for taint in taints {
        let Some(toleration) = matching_toleration(taint, tolerations) else { return Some(Duration::ZERO) };
        let limit = toleration.toleration_seconds.map(|seconds| u64::try_from(seconds).unwrap_or_default());
        shortest = shortest.into_iter().chain(limit).min();
    }
    shortest.map(Duration::from_secs)
}

/// Returns the first toleration that covers the taint.
fn matching_toleration<'a>(taint: &Taint, tolerations: &'a [Toleration]) -> Option<&'a Toleration> {
    tolerations.iter().find(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => {
            toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Checks how long a Pod with these tolerations stays on a Node with these taints, as `key=value` words.
    #[track_caller]
    fn check(taints: &str, tolerations: Value, expected: Option<u64>) {
        let taint = |word: &str| {
            let (key, value) = word.split_once('=').unwrap();
            Taint {
                key: key.into(),
                value: Some(value.into()),
                effect: "NoExecute".into(),
                ..Taint::default()
            }
        };
        let taints: Vec<Taint> = taints.split_whitespace().map(taint).collect();
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        let tolerated = time_tolerated(&taints.iter().collect::<Vec<_>>(), &tolerations);
        assert_eq!(tolerated, expected.map(Duration::from_secs));
    }

    #[test]
    fn how_long_taints_are_tolerated() {
        check("", json!([]), None);
        check("a=1", json!([]), Some(0));
        check("a=1", json!([{"key": "a", "value": "2"}]), Some(0));
        check("a=1", json!([{"key": "a", "value": "1"}]), None);
        check(
            "a=1",
            json!([{"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}]),
            Some(0),
        );
        check("a=1", json!([{"key": "a", "operator": "Gt", "value": "1"}]), Some(0));
        check("a=1", json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}]), Some(7));
        check("a=1", json!([{"operator": "Exists", "tolerationSeconds": -1}]), Some(0));
        let both = json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 9},
            {"key": "b", "operator": "Exists", "tolerationSeconds": 5}, {"operator": "Exists"}]);
        check("a=1 b=1", both.clone(), Some(5));
        check("a=1 c=1", both.clone(), Some(9));
        check("c=1", both, None);
    }
}
