//! Applies the Job's own rules to decide what a Pod's failure means and which completions suffice. This module is pure.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};

use super::indexes::CompletionIndexes;
use crate::controllers::partial_pod::{PartialContainerStatus, PartialPod};

/// The consequence of a failed Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailureConsequence {
    /// It counts towards the backoff limit.
    Count,
    /// It does not count.
    Ignore,
    /// Its index is given up.
    FailIndex,
    /// The Job fails, with this message.
    FailJob(String),
}

/// Returns the consequence that the first matching rule specifies. Without a match the failure counts, unless the Pod's
/// node was stopped: if the only node is a process that users stop, that is not the Job's failure. (Kubernetes counts
/// it, because there are other nodes to drain to.)
pub(super) fn consequence_of_failure(spec: &JobSpec, pod: &PartialPod) -> FailureConsequence {
    let otherwise =
        if pod.is_disrupted_by_node() { FailureConsequence::Ignore } else { FailureConsequence::Count };
    let Some(PodFailurePolicy { rules }) = &spec.pod_failure_policy else { return otherwise };
    let matched_rule = rules.iter().enumerate().find_map(|(index, rule)| {
        let what = matched(rule, pod)?;
        Some(match rule.action.as_str() {
            "Ignore" => FailureConsequence::Ignore,
            "FailIndex" => FailureConsequence::FailIndex,
            "FailJob" => {
                FailureConsequence::FailJob(format!("{what} matching FailJob rule at index {index}"))
            }
            _ => FailureConsequence::Count,
        })
    });
    matched_rule.unwrap_or(otherwise)
}

/// Describes what about the Pod matches the rule.
fn matched(rule: &PodFailurePolicyRule, pod: &PartialPod) -> Option<String> {
    let full_name = format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or_default(), pod.name());
    if let Some(codes) = &rule.on_exit_codes {
        let mut statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        let (name, code) = statuses.find_map(|status| exit(status, codes))?;
        return Some(format!("Container {name} for pod {full_name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let condition = pod.status.conditions.iter().find(|condition| {
        patterns.iter().any(|pattern| {
            pattern.type_ == condition.r#type
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    })?;
    Some(format!("Pod {full_name} has condition {}", condition.r#type))
}

fn exit<'a>(
    status: &'a PartialContainerStatus,
    codes: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_meant = codes.container_name.as_ref().is_none_or(|name| *name == status.name);
    let is_listed = codes.values.contains(&code);
    let is_match = if codes.operator == "In" { is_listed } else { !is_listed };
    (is_meant && code != 0 && is_match).then_some((&status.name, code))
}

/// Describes the rule that these completed indexes satisfy.
pub(super) fn satisfied_rule(
    policy: Option<&SuccessPolicy>,
    completed: &CompletionIndexes,
    completions: i32,
) -> Option<String> {
    if completed.len() == 0 {
        return None;
    }
    let is_satisfied = |rule: &k8s_openapi::api::batch::v1::SuccessPolicyRule| match &rule.succeeded_indexes {
        Some(text) => {
            let required = CompletionIndexes::parse(text, completions);
            let common = required.common(completed);
            required.len() > 0
                && (common == required.len() || rule.succeeded_count.is_some_and(|count| common >= count))
        }
        None => rule.succeeded_count.is_some_and(|count| completed.len() >= count),
    };
    let index = policy?.rules.iter().position(is_satisfied)?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check_failure(rules: Value, status: Value, expected: FailureConsequence) {
        let spec = json!({"template": {}, "podFailurePolicy": {"rules": rules}});
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "status": status});
        let (spec, pod) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(pod).unwrap());
        assert_eq!(consequence_of_failure(&spec, &pod), expected);
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 42], "containerName": "c"}},
        ]);
        let exited = |code: i32| json!({"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]});
        let failed = "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        check_failure(rules.clone(), exited(42), FailureConsequence::FailJob(failed.into()));
        check_failure(rules.clone(), exited(1), FailureConsequence::Count);
        check_failure(rules.clone(), exited(7), FailureConsequence::FailIndex);
        check_failure(rules.clone(), exited(0), FailureConsequence::Count);
        let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        check_failure(rules, disrupted.clone(), FailureConsequence::Ignore);
        check_failure(json!([]), disrupted, FailureConsequence::Count);
        let stopped = json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]});
        check_failure(json!([]), stopped.clone(), FailureConsequence::Ignore);
        let counts = json!([{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]);
        check_failure(counts, stopped, FailureConsequence::Count);
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check_success(rule: Value, completed: &str, expected: bool) {
        let policy = serde_json::from_value(json!({"rules": [rule]})).unwrap();
        assert_eq!(
            satisfied_rule(Some(&policy), &CompletionIndexes::parse(completed, 10), 10).is_some(),
            expected
        );
    }

    #[test]
    fn what_suffices() {
        check_success(json!({"succeededIndexes": "0-2"}), "0,2", false);
        check_success(json!({"succeededIndexes": "0-2"}), "0-5", true);
        check_success(json!({"succeededIndexes": "0-2", "succeededCount": 2}), "0,2", true);
        check_success(json!({"succeededCount": 3}), "5-7", true);
        check_success(json!({"succeededCount": 3}), "5-6", false);
    }
}
