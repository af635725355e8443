//! Decides which Nodes should have a Pod of a DaemonSet, which Pods to delete, and in which order a rolling update
//! replaces outdated Pods. This module is pure.
//!
//! Node selectors, node affinity, Node names and taints are respected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, PodSpec, Taint};

use crate::controllers::node_affinity::matches_node;
use crate::controllers::numbers::{Rounding, as_count, omit_zero, resolve_percentage};
use crate::controllers::partial_pod::{PartialPod, min_ready};
use crate::controllers::revisions::REVISION;
use crate::controllers::tolerations::{is_tolerated, keeps_pods_away, taints_of};

/// Taints that describe a Node's condition do not drive its daemons away.
const TOLERATED: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

/// Returns whether the Pod should run on this Node.
pub(super) fn should_run_on(pod: &PodSpec, node: &Node) -> bool {
    let is_named = pod.node_name.as_ref().is_none_or(|name| node.metadata.name.as_ref() == Some(name));
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let is_accepted = |taint: &Taint| {
        !keeps_pods_away(taint) || TOLERATED.contains(&taint.key.as_str()) || is_tolerated(taint, tolerations)
    };
    is_named && matches_node(pod, node) && taints_of(node).iter().all(is_accepted)
}

/// The input for deciding the next step.
pub(super) struct DaemonSetState<'a> {
    pub(super) spec: &'a DaemonSetSpec,
    /// The Nodes that should have a Pod.
    pub(super) nodes: BTreeSet<String>,
    pub(super) pods: &'a [Arc<PartialPod>],
    /// The template's hash.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// The Nodes that need a Pod, and the Pods to delete.
#[derive(Debug, Default)]
pub(super) struct PodChanges {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<PartialPod>>,
}

impl DaemonSetState<'_> {
    pub(super) fn min_ready(&self) -> Duration {
        min_ready(self.spec.min_ready_seconds)
    }

    fn by_node(&self) -> BTreeMap<&str, Vec<&Arc<PartialPod>>> {
        let mut by_node: BTreeMap<&str, Vec<&Arc<PartialPod>>> = BTreeMap::new();
        for pod in self.pods {
            by_node.entry(pod.node()).or_default().push(pod);
        }
        for pods in by_node.values_mut() {
            pods.sort_by(|left, right| (left.created(), left.name()).cmp(&(right.created(), right.name())));
        }
        by_node
    }

    pub(super) fn pod_changes(&self) -> PodChanges {
        let mut step = PodChanges::default();
        let by_node = self.by_node();
        let of = |node: &str| by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        for node in &self.nodes {
            let present = of(node).iter().filter(|pod| !pod.is_dying());
            let (ended, going_on): (Vec<&Arc<PartialPod>>, Vec<&Arc<PartialPod>>) =
                present.copied().partition(|pod| pod.is_finished());
            step.delete.extend(ended.into_iter().chain(going_on.into_iter().skip(1)).cloned());
            if of(node).is_empty() {
                step.create.push(node.clone());
            }
        }
        let misplaced = self.pods.iter().filter(|pod| !self.nodes.contains(pod.node()) && !pod.is_dying());
        step.delete.extend(misplaced.cloned());
        if step.create.is_empty() && step.delete.is_empty() {
            step.delete = self.outdated();
        }
        step
    }

    fn is_current(&self, pod: &PartialPod) -> bool {
        pod.label(REVISION) == Some(self.hash)
    }

    /// Returns the Pods of other revisions that may be deleted now.
    fn outdated(&self) -> Vec<Arc<PartialPod>> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Vec::new();
        }
        let written =
            strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_unavailable.as_ref());
        let wanted = as_count(self.nodes.len());
        let limit =
            usize::try_from(resolve_percentage(written, wanted, Rounding::Up)).unwrap_or_default().max(1);
        let is_available = |pod: &PartialPod| !pod.is_dying() && pod.is_available(self.min_ready(), self.now);
        let available = self.pods.iter().filter(|pod| is_available(pod)).count();
        let budget = limit.saturating_sub(self.nodes.len().saturating_sub(available));
        let outdated = self.pods.iter().filter(|pod| !self.is_current(pod) && !pod.is_dying());
        let (good, bad): (Vec<_>, Vec<_>) = outdated.cloned().partition(|pod| is_available(pod));
        bad.into_iter().chain(good.into_iter().take(budget)).collect()
    }

    pub(super) fn status(&self, generation: Option<i64>, collisions: Option<i32>) -> DaemonSetStatus {
        let by_node = self.by_node();
        let number = |test: &dyn Fn(&PartialPod) -> bool| {
            let nodes = self.nodes.iter().filter_map(|node| by_node.get(node.as_str()));
            as_count(nodes.filter(|pods| pods.iter().any(|pod| test(pod))).count())
        };
        let wanted = as_count(self.nodes.len());
        let available = number(&|pod| pod.is_available(self.min_ready(), self.now));
        DaemonSetStatus {
            observed_generation: generation,
            desired_number_scheduled: wanted,
            current_number_scheduled: number(&|_| true),
            number_misscheduled: as_count(by_node.keys().filter(|node| !self.nodes.contains(**node)).count()),
            number_ready: number(&PartialPod::is_ready),
            number_available: omit_zero(available),
            number_unavailable: omit_zero(wanted - available),
            updated_number_scheduled: omit_zero(number(&|pod| self.is_current(pod))),
            collision_count: collisions,
            conditions: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses Pods from `name@node:state`: `r` ready, `p` pending, `f` failed; a capital letter is the old revision.
    fn pods(text: &str) -> Vec<Arc<PartialPod>> {
        let pod = |word: &str| {
            let (name, rest) = word.split_once('@').unwrap();
            let (node, state) = rest.split_once(':').unwrap();
            let status = match state.to_ascii_lowercase().as_str() {
                "r" => json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                "f" => json!({"phase": "Failed"}),
                _ => json!({"phase": "Pending"}),
            };
            let hash = if state == state.to_ascii_lowercase() { "new" } else { "old" };
            let pod = json!({"metadata": {"name": name, "uid": name, "labels": {REVISION: hash}},
                             "spec": {"nodeName": node}, "status": status});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        text.split_whitespace().map(pod).collect()
    }

    #[track_caller]
    fn check(nodes: &str, text: &str, expected: &str) {
        let spec = serde_json::from_value(json!({"selector": {}, "template": {}})).unwrap();
        let pods = pods(text);
        let nodes = nodes.split_whitespace().map(str::to_owned).collect();
        let state =
            DaemonSetState { spec: &spec, nodes, pods: &pods, hash: "new", now: Timestamp::UNIX_EPOCH };
        let step = state.pod_changes();
        let mut changes: Vec<String> = step.create.iter().map(|node| format!("+{node}")).collect();
        changes.extend(step.delete.iter().map(|pod| format!("-{}", pod.name())));
        assert_eq!(changes.join(" "), expected, "{text}");
    }

    #[test]
    fn one_on_each_node() {
        check("x y", "", "+x +y");
        check("x y", "a@x:r", "+y");
        check("x", "a@x:r b@x:r", "-b");
        check("x", "a@x:f", "-a");
        check("x", "a@x:r b@gone:r", "-b");
        check("x y", "a@x:R b@y:R", "-a");
        check("x y", "a@x:p b@y:R", "");
        check("x y", "a@x:r b@y:P", "-b");
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check_place(pod: Value, node: Value, expected: bool) {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
        let (spec, node) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(node).unwrap());
        assert_eq!(should_run_on(&spec, &node), expected);
    }

    #[test]
    fn where_a_pod_may_run() {
        let node = |spec: Value| json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": spec});
        let tainted = node(json!({"taints": [{"key": "own", "value": "me", "effect": "NoSchedule"}]}));
        check_place(json!({}), node(json!({})), true);
        check_place(json!({"nodeSelector": {"disk": "ssd"}}), node(json!({})), true);
        check_place(json!({"nodeSelector": {"disk": "tape"}}), node(json!({})), false);
        check_place(json!({}), tainted.clone(), false);
        check_place(json!({"tolerations": [{"key": "own", "value": "me"}]}), tainted.clone(), true);
        check_place(json!({"tolerations": [{"operator": "Exists"}]}), tainted, true);
        let affinity = |value: &str| {
            json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]}}}})
        };
        check_place(affinity("ssd"), node(json!({})), true);
        check_place(affinity("tape"), node(json!({})), false);
        let unready = json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]});
        check_place(json!({}), node(unready), true);
    }
}
