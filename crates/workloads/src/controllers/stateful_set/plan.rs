//! Decides a StatefulSet's next step: which Pods to create and which to delete. This module is pure.
//!
//! **Invariant:** unless Pods are managed in parallel, a step touches one Pod and waits until every Pod below it is
//! available: Pods are created in order, deleted in reverse order, and updated in reverse order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSetSpec;

use crate::controllers::numbers::{Rounding, resolve_percentage};
use crate::controllers::partial_pod::{PartialPod, min_ready};
use crate::controllers::revisions::REVISION;

/// A step for one Pod.
#[derive(Clone, Debug)]
pub(super) enum PodStep {
    Create(i32),
    Delete(Arc<PartialPod>),
}

/// The input for deciding the next step.
pub(super) struct StatefulSetState<'a> {
    pub(super) spec: &'a StatefulSetSpec,
    /// The Pods by ordinal.
    pub(super) pods: &'a BTreeMap<i32, Arc<PartialPod>>,
    /// The revision to which Pods are updated.
    pub(super) update: &'a str,
    pub(super) now: Timestamp,
}

/// Returns the number at the end of the name of a Pod of this set.
pub(super) fn ordinal_of(set: &str, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

pub(super) fn revision_of(pod: &PartialPod) -> &str {
    pod.label(REVISION).unwrap_or_default()
}

/// Returns the ordinals that should exist.
pub(super) fn ordinals(spec: &StatefulSetSpec) -> std::ops::Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or_default();
    start..start + spec.replicas.unwrap_or(1)
}

/// Returns the first ordinal that is updated.
pub(super) fn partition(spec: &StatefulSetSpec) -> i32 {
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    ordinals(spec).start + rolling.and_then(|rolling| rolling.partition).unwrap_or_default()
}

impl StatefulSetState<'_> {
    pub(super) fn min_ready(&self) -> Duration {
        min_ready(self.spec.min_ready_seconds)
    }

    fn is_parallel(&self) -> bool {
        self.spec.pod_management_policy.as_deref() == Some("Parallel")
    }

    fn is_available(&self, pod: &PartialPod) -> bool {
        pod.is_available(self.min_ready(), self.now)
    }

    fn is_healthy(&self, pod: &PartialPod) -> bool {
        pod.phase() == "Running" && self.is_available(pod) && !pod.is_dying()
    }

    /// Returns the steps to take now; empty if the set is as desired, or must wait for something.
    pub(super) fn steps(&self) -> Vec<PodStep> {
        let mut steps = Vec::new();
        if !self.create_missing(&mut steps) || !self.delete_surplus(&mut steps) || !steps.is_empty() {
            return steps;
        }
        self.replace_outdated()
    }

    /// Creates missing Pods. Returns whether to continue.
    fn create_missing(&self, steps: &mut Vec<PodStep>) -> bool {
        for ordinal in ordinals(self.spec) {
            let is_settled = match self.pods.get(&ordinal) {
                None => {
                    steps.push(PodStep::Create(ordinal));
                    false
                }
                Some(pod) if pod.is_finished() => {
                    // It is re-created once it is gone.
                    steps.extend((!pod.is_dying()).then(|| PodStep::Delete(pod.clone())));
                    false
                }
                Some(pod) => self.is_healthy(pod),
            };
            if !is_settled && !self.is_parallel() {
                return false;
            }
        }
        true
    }

    /// Deletes surplus Pods, the highest first. Returns whether to continue.
    fn delete_surplus(&self, steps: &mut Vec<PodStep>) -> bool {
        let wanted = ordinals(self.spec);
        let condemned: Vec<_> =
            self.pods.iter().filter(|(ordinal, _)| !wanted.contains(ordinal)).map(|(_, pod)| pod).collect();
        let first_unhealthy = condemned.iter().find(|pod| !self.is_healthy(pod)).map(|pod| pod.uid());
        for pod in condemned.into_iter().rev() {
            let may_go = self.is_healthy(pod) || first_unhealthy == Some(pod.uid());
            if !pod.is_dying() && (self.is_parallel() || may_go) {
                steps.push(PodStep::Delete(pod.clone()));
            }
            if !self.is_parallel() {
                return false;
            }
        }
        true
    }

    /// Deletes Pods of other revisions, the highest first, as many as may be unavailable.
    fn replace_outdated(&self) -> Vec<PodStep> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Vec::new();
        }
        let wanted = ordinals(self.spec);
        let pods: Vec<_> = self.pods.range(wanted).rev().collect();
        let unavailable = pods.iter().filter(|(_, pod)| !self.is_available(pod) || pod.is_dying()).count();
        let mut budget = self.unavailable_max().saturating_sub(unavailable);
        let from = partition(self.spec);
        let outdated = pods
            .into_iter()
            .filter(|(ordinal, pod)| **ordinal >= from && revision_of(pod) != self.update && !pod.is_dying());
        let mut steps = Vec::new();
        for (_, pod) in outdated {
            let costs_nothing = self.is_parallel() && !self.is_available(pod);
            if !costs_nothing && budget == 0 {
                continue;
            }
            budget -= usize::from(!costs_nothing);
            steps.push(PodStep::Delete(pod.clone()));
        }
        steps
    }

    fn unavailable_max(&self) -> usize {
        let rolling =
            self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let written = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let replicas = self.spec.replicas.unwrap_or(1);
        usize::try_from(resolve_percentage(written, replicas, Rounding::Down)).unwrap_or_default().max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses Pods from `ordinal:state`: `r` ready, `p` pending, `d` dying, `f` failed; a capital letter is the old
    /// revision.
    fn pods(text: &str) -> BTreeMap<i32, Arc<PartialPod>> {
        let pod = |word: &str| {
            let (ordinal, state) = word.split_once(':').unwrap();
            let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
            let status = match state.to_ascii_lowercase().as_str() {
                "r" => json!({"phase": "Running", "conditions": ready("True")}),
                "d" => json!({"phase": "Running", "conditions": ready("False")}),
                "f" => json!({"phase": "Failed"}),
                _ => json!({"phase": "Pending"}),
            };
            let revision = if state == state.to_ascii_lowercase() { "new" } else { "old" };
            let mut pod = json!({"metadata": {"name": format!("s-{ordinal}"), "uid": ordinal,
                                 "labels": {REVISION: revision}}, "status": status});
            if state.eq_ignore_ascii_case("d") {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            (ordinal.parse().unwrap(), Arc::new(serde_json::from_value(pod).unwrap()))
        };
        text.split_whitespace().map(pod).collect()
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(spec: Value, text: &str, expected: &str) {
        let mut full = json!({"selector": {}, "template": {}, "replicas": 3});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let (spec, pods) = (serde_json::from_value(full).unwrap(), pods(text));
        let state = StatefulSetState { spec: &spec, pods: &pods, update: "new", now: Timestamp::UNIX_EPOCH };
        let steps = state.steps().into_iter().map(|step| match step {
            PodStep::Create(ordinal) => format!("+{ordinal}"),
            PodStep::Delete(pod) => format!("-{}", pod.uid()),
        });
        assert_eq!(steps.collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn one_after_the_other() {
        let ordered = json!({});
        check(ordered.clone(), "", "+0");
        check(ordered.clone(), "0:p", "");
        check(ordered.clone(), "0:r", "+1");
        check(ordered.clone(), "0:r 2:r", "+1");
        check(ordered.clone(), "0:r 1:f", "-1");
        check(ordered.clone(), "0:r 1:d 2:r", "");
        check(ordered.clone(), "0:r 1:r 2:r", "");
        check(ordered.clone(), "0:r 1:r 2:r 3:r 4:r", "-4");
        check(ordered.clone(), "0:r 1:r 2:r 3:r 4:d", "");
        check(ordered.clone(), "0:r 1:r 2:r 3:p 4:p", "");
        check(ordered.clone(), "0:r 1:r 2:r 3:p", "-3");
        check(json!({"ordinals": {"start": 5}}), "5:r 6:r", "+7");
    }

    #[test]
    fn all_at_once() {
        let parallel = json!({"podManagementPolicy": "Parallel"});
        check(parallel.clone(), "", "+0 +1 +2");
        check(parallel.clone(), "1:p", "+0 +2");
        check(parallel.clone(), "0:r 1:r 2:r 3:r 4:p", "-4 -3");
        check(parallel.clone(), "0:R 1:P 2:R", "-1");
        check(parallel, "0:R 1:R 2:R", "-2");
    }

    #[test]
    fn updates_go_down_from_the_top() {
        check(json!({}), "0:R 1:R 2:R", "-2");
        check(json!({}), "0:R 1:R 2:r", "-1");
        check(json!({}), "0:R 1:R 2:p", "");
        let partition =
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        check(partition.clone(), "0:R 1:R 2:R", "-2");
        check(partition, "0:R 1:R 2:r", "");
        let two =
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
        check(two, "0:R 1:R 2:R", "-2 -1");
        check(json!({"updateStrategy": {"type": "OnDelete"}}), "0:R 1:R 2:R", "");
    }

    #[test]
    fn names_have_ordinals() {
        for (name, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-", None),
            ("web-01", None),
            ("we-1", None),
            ("web-x-1", None),
        ] {
            assert_eq!(ordinal_of("web", name), expected, "{name}");
        }
    }
}
