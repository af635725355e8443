//! Evaluates topology spread constraints: how unevenly the Pods of a selector may be spread over the values of a Node
//! label. This module is pure.
//!
//! Constraints with `DoNotSchedule` exclude Nodes; those with `ScheduleAnyway` only express a preference.

use std::collections::BTreeMap;

use homeostat_core::selector::LabelSelector;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, TopologySpreadConstraint};
use serde_json::json;

use super::cluster::{ClusterState, namespace_of, selects};
use super::node_fit::{Misfit, has_untolerated_taint};
use crate::controllers::node_affinity::{label, matches_node};

const UNEVEN: Misfit = Misfit::temporary("node(s) didn't match pod topology spread constraints");
const NO_LABEL: Misfit =
    Misfit::permanent("node(s) didn't match pod topology spread constraints (missing required label)");

/// A constraint, with the matching Pods counted in each domain.
#[derive(Debug)]
struct SpreadCount<'a> {
    topology: &'a str,
    max_skew: i64,
    /// The number of matching Pods in the emptiest domain; zero if there are fewer domains than required.
    fewest: i64,
    matching: BTreeMap<&'a str, i64>,
    /// One if the Pod itself matches.
    own: i64,
}

/// The constraints of a Pod that exclude Nodes, or those that do not.
#[derive(Debug)]
pub(super) struct SpreadRules<'a>(Vec<SpreadCount<'a>>);

impl<'a> SpreadRules<'a> {
    /// Counts for the constraints with this `whenUnsatisfiable`.
    pub(super) fn new(pod: &'a Pod, action: &str, cluster: &'a ClusterState) -> Self {
        let Some(spec) = &pod.spec else { return Self(Vec::new()) };
        let all = spec.topology_spread_constraints.iter().flatten();
        let meant: Vec<_> = all.filter(|one| one.when_unsatisfiable == action).collect();
        let has_labels = |node: &Node| meant.iter().all(|one| label(node, &one.topology_key).is_some());
        let nodes: Vec<usize> =
            (0..cluster.nodes.len()).filter(|index| has_labels(&cluster.nodes[*index])).collect();
        Self(meant.iter().map(|one| count(one, pod, spec, &nodes, cluster)).collect())
    }

    /// Returns why the Pod cannot run on this Node; `None` if it can.
    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        self.0.iter().find_map(|rule| match label(node, rule.topology) {
            None => Some(NO_LABEL),
            Some(value) => (rule.skew(value) > rule.max_skew).then_some(UNEVEN),
        })
    }

    /// Returns how uneven the spread would become with the Pod on this Node.
    pub(super) fn unevenness(&self, node: &Node) -> i64 {
        self.0.iter().filter_map(|rule| Some(rule.skew(label(node, rule.topology)?).max(0))).sum()
    }
}

impl SpreadCount<'_> {
    /// Returns how many more matching Pods this domain would have than the emptiest one.
    fn skew(&self, value: &str) -> i64 {
        self.matching.get(value).copied().unwrap_or_default() + self.own - self.fewest
    }
}

fn count<'a>(
    written: &'a TopologySpreadConstraint,
    pod: &Pod,
    spec: &PodSpec,
    nodes: &[usize],
    cluster: &'a ClusterState,
) -> SpreadCount<'a> {
    let selector = written.label_selector.as_ref().map_or_else(LabelSelector::nothing, |selector| {
        LabelSelector::from_json(&json!(selector)).unwrap_or_else(|_| LabelSelector::nothing())
    });
    let is_meant = |other: &Pod| selects(&selector, other) && has_same_labels(written, pod, other);
    let mut matching: BTreeMap<&str, i64> = BTreeMap::new();
    for index in nodes.iter().copied().filter(|index| is_included(written, spec, &cluster.nodes[*index])) {
        let Some(value) = label(&cluster.nodes[index], &written.topology_key) else { continue };
        let counts = |other: &Pod| {
            let is_going = other.metadata.deletion_timestamp.is_some();
            !is_going
                && namespace_of(other) == namespace_of(pod)
                && !selector.is_everything()
                && is_meant(other)
        };
        let found = cluster.pods_on(index).filter(|other| counts(other)).count();
        *matching.entry(value).or_default() += i64::try_from(found).unwrap_or(i64::MAX);
    }
    let domains_min = usize::try_from(written.min_domains.unwrap_or(1)).unwrap_or_default();
    let has_enough = matching.len() >= domains_min;
    let fewest = matching.values().copied().min().filter(|_| has_enough).unwrap_or_default();
    let own = i64::from(is_meant(pod));
    SpreadCount { topology: &written.topology_key, max_skew: written.max_skew.into(), fewest, matching, own }
}

/// Returns whether the other Pod has the same values for the labels in `matchLabelKeys`.
fn has_same_labels(written: &TopologySpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    let value =
        |pod: &'_ Pod, key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned());
    let mut keys = written.match_label_keys.iter().flatten();
    keys.all(|key| value(pod, key).is_none_or(|own| value(other, key) == Some(own)))
}

/// Returns whether the Pods on this Node count under the constraint's policies.
fn is_included(written: &TopologySpreadConstraint, spec: &PodSpec, node: &Node) -> bool {
    let honors_affinity = written.node_affinity_policy.as_deref().unwrap_or("Honor") == "Honor";
    let honors_taints = written.node_taints_policy.as_deref() == Some("Honor");
    (!honors_affinity || matches_node(spec, node)) && !(honors_taints && has_untolerated_taint(spec, node))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::cluster::tests::{cluster, pod};
    use super::*;

    /// Checks on which Nodes a `web` Pod with this constraint may run.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(more: Value, others: &str, expected: &str) {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut spec = json!({"topologySpreadConstraints": [constraint]});
        if more["nodeAffinityPolicy"].is_string() {
            spec["nodeSelector"] = json!({"zone": "y"});
        }
        let cluster = cluster("a=x b=x c=y d=", others, &json!({}));
        let pod = pod("new", "web", spec);
        let rules = SpreadRules::new(&pod, "DoNotSchedule", &cluster);
        let fitting = cluster.nodes.iter().filter(|node| rules.misfit(node).is_none());
        let names: Vec<&str> = fitting.map(|node| super::super::cluster::node_name(node)).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn zones_are_filled_evenly() {
        check(json!({}), "", "a b c");
        check(json!({}), "one@a:web", "c");
        check(json!({}), "one@a:db", "a b c");
        check(json!({}), "one@a:web two@c:web", "a b c");
        check(json!({"maxSkew": 2}), "one@a:web", "a b c");
        check(json!({"minDomains": 3}), "one@a:web two@c:web", "");
        check(json!({"whenUnsatisfiable": "ScheduleAnyway"}), "one@a:web", "a b c d");
        check(json!({"nodeAffinityPolicy": "Honor"}), "one@c:web", "a b c");
        check(json!({"nodeAffinityPolicy": "Ignore"}), "one@c:web", "a b");
        check(json!({"labelSelector": {}, "matchLabelKeys": ["app"]}), "one@a:web two@c:db", "a b c");
    }

    #[test]
    fn a_missing_label_is_told() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        let cluster = cluster("d=", "", &json!({}));
        let pod = pod("new", "web", json!({"topologySpreadConstraints": [constraint]}));
        assert_eq!(
            SpreadRules::new(&pod, "DoNotSchedule", &cluster).misfit(&cluster.nodes[0]),
            Some(NO_LABEL)
        );
    }
}
