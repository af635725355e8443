//! Evaluates affinity and anti-affinity between Pods: near which Pods a Pod must run, and near which it must not. This
//! module is pure.
//!
//! Two Pods are near each other if their Nodes have the same value of the term's topology label. The anti-affinity of
//! running Pods also counts.

use homeostat_core::selector::LabelSelector;
use k8s_openapi::api::core::v1::{
    Node, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm,
};
use serde_json::json;

use super::cluster::{ClusterState, namespace_of, selects};
use super::node_fit::Misfit;
use crate::controllers::node_affinity::label;

const NO_AFFINITY: Misfit = Misfit::permanent("node(s) didn't match pod affinity rules");
const ANTI_AFFINITY: Misfit = Misfit::temporary("node(s) didn't match pod anti-affinity rules");
const EXISTING_ANTI_AFFINITY: Misfit =
    Misfit::temporary("node(s) didn't satisfy existing pods anti-affinity rules");

/// A term with its selectors parsed.
#[derive(Debug)]
struct ParsedTerm {
    topology: String,
    labels: LabelSelector,
    namespaces: Vec<String>,
    namespace_selector: LabelSelector,
}

impl ParsedTerm {
    /// Parses a term of this Pod.
    fn new(owner: &Pod, written: &PodAffinityTerm) -> Self {
        let parse = |selector: Option<&_>| {
            selector.map_or_else(LabelSelector::nothing, |selector| {
                LabelSelector::from_json(&json!(selector)).unwrap_or_else(|_| LabelSelector::nothing())
            })
        };
        let mut namespaces = written.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && written.namespace_selector.is_none() {
            namespaces.push(namespace_of(owner).to_owned());
        }
        Self {
            topology: written.topology_key.clone(),
            labels: parse(written.label_selector.as_ref()),
            namespaces,
            namespace_selector: parse(written.namespace_selector.as_ref()),
        }
    }

    /// Returns whether the term matches this Pod.
    fn matches(&self, pod: &Pod, cluster: &ClusterState) -> bool {
        let namespace = namespace_of(pod);
        let labels = cluster.namespaces.get(namespace);
        let is_namespace = self.namespaces.iter().any(|name| name == namespace)
            || self.namespace_selector.matches(|key| labels?.get(key).map(String::as_str));
        is_namespace && selects(&self.labels, pod)
    }
}

fn affinity(pod: &Pod) -> Option<&PodAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.pod_affinity.as_ref()
}

fn anti_affinity(pod: &Pod) -> Option<&PodAntiAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.pod_anti_affinity.as_ref()
}

fn parsed(owner: &Pod, terms: Option<&Vec<PodAffinityTerm>>) -> Vec<ParsedTerm> {
    terms.into_iter().flatten().map(|term| ParsedTerm::new(owner, term)).collect()
}

/// What a Pod requires of the Pods near it, and what they require of it.
#[derive(Debug)]
pub(super) struct AffinityRules<'a> {
    pod: &'a Pod,
    cluster: &'a ClusterState,
    near: Vec<ParsedTerm>,
    apart: Vec<ParsedTerm>,
    /// The topology labels and values at which another Pod's anti-affinity excludes this one.
    refused_at: Vec<(String, String)>,
}

impl<'a> AffinityRules<'a> {
    pub(super) fn new(pod: &'a Pod, cluster: &'a ClusterState) -> Self {
        let required =
            |rules: &'a PodAffinity| rules.required_during_scheduling_ignored_during_execution.as_ref();
        let near = parsed(pod, affinity(pod).and_then(required));
        let apart = parsed(pod, required_apart(pod));
        let mut refused_at = Vec::new();
        for (node, other) in &cluster.pods {
            for term in parsed(other, required_apart(other)) {
                let value = label(&cluster.nodes[*node], &term.topology);
                if let Some(value) = value.filter(|_| term.matches(pod, cluster)) {
                    refused_at.push((term.topology, value.clone()));
                }
            }
        }
        Self { pod, cluster, near, apart, refused_at }
    }

    /// Returns why the Pod cannot run on this Node; `None` if it can.
    pub(super) fn misfit(&self, node: &Node) -> Option<Misfit> {
        if !self.is_near(node) {
            return Some(NO_AFFINITY);
        }
        let has_match = |term: &ParsedTerm| {
            label(node, &term.topology).is_some_and(|value| {
                let mut others = self.cluster.pods_by_label(&term.topology);
                others.any(|(at, other)| at == value && term.matches(other, self.cluster))
            })
        };
        if self.apart.iter().any(has_match) {
            return Some(ANTI_AFFINITY);
        }
        let refuses = |(key, value): &(String, String)| label(node, key) == Some(value);
        self.refused_at.iter().any(refuses).then_some(EXISTING_ANTI_AFFINITY)
    }

    /// Returns whether the Pods it wants to be near are there. The first Pod of a series with affinity to itself may
    /// run on any Node that has the topology labels.
    fn is_near(&self, node: &Node) -> bool {
        if self.near.iter().any(|term| label(node, &term.topology).is_none()) {
            return false;
        }
        let is_wanted = |other: &Pod| self.near.iter().all(|term| term.matches(other, self.cluster));
        let is_at = |term: &ParsedTerm| {
            let mut others = self.cluster.pods_by_label(&term.topology);
            others.any(|(at, other)| {
                label(node, &term.topology).is_some_and(|value| value == at) && is_wanted(other)
            })
        };
        let exists_anywhere = || {
            self.near
                .iter()
                .any(|term| self.cluster.pods_by_label(&term.topology).any(|(_, other)| is_wanted(other)))
        };
        self.near.iter().all(is_at) || (is_wanted(self.pod) && !exists_anywhere())
    }
}

fn required_apart(pod: &Pod) -> Option<&Vec<PodAffinityTerm>> {
    anti_affinity(pod)?.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Returns how much the Pod prefers this Node because of the Pods near it: the sum of the weights of its preferred
/// terms, for each Pod they match.
pub(super) fn preference(pod: &Pod, node: &Node, cluster: &ClusterState) -> i64 {
    let near =
        affinity(pod).and_then(|rules| rules.preferred_during_scheduling_ignored_during_execution.as_ref());
    let apart = anti_affinity(pod)
        .and_then(|rules| rules.preferred_during_scheduling_ignored_during_execution.as_ref());
    let weight = |terms: Option<&Vec<WeightedPodAffinityTerm>>| -> i64 {
        let terms = terms.into_iter().flatten();
        terms.map(|one| i64::from(one.weight) * pods_near(pod, &one.pod_affinity_term, node, cluster)).sum()
    };
    weight(near) - weight(apart)
}

fn pods_near(pod: &Pod, term: &PodAffinityTerm, node: &Node, cluster: &ClusterState) -> i64 {
    let Some(value) = label(node, &term.topology_key) else { return 0 };
    let term = ParsedTerm::new(pod, term);
    let near = cluster.pods_by_label(&term.topology).filter(|(at, _)| at == value);
    i64::try_from(near.filter(|(_, other)| term.matches(other, cluster)).count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::cluster::tests::{cluster, pod};
    use super::*;

    fn term(app: &str, topology: &str) -> Value {
        json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology})
    }

    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn rules(kind: &str, terms: Value) -> Value {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    }

    /// Checks on which of three Nodes in two zones a Pod with this label and these rules may run.
    #[track_caller]
    fn check(app: &str, spec: Value, others: &str, of_others: &Value, expected: &str) {
        let cluster = cluster("a=x b=x c=y d=", others, of_others);
        let pod = pod("new", app, spec);
        let rules = AffinityRules::new(&pod, &cluster);
        let fitting = cluster.nodes.iter().filter(|node| rules.misfit(node).is_none());
        let names: Vec<&str> = fitting.map(|node| super::super::cluster::node_name(node)).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn pods_run_near_each_other() {
        let none = json!({});
        let near = |app: &str, topology: &str| rules("podAffinity", json!([term(app, topology)]));
        check("web", none.clone(), "", &none, "a b c d");
        check("web", near("db", "zone"), "", &none, "");
        check("web", near("db", "zone"), "one@a:db", &none, "a b");
        check("web", near("db", "kubernetes.io/hostname"), "one@a:db", &none, "a");
        check("web", near("web", "zone"), "", &none, "a b c");
        check("web", near("web", "zone"), "one@c:web", &none, "c");
        let both = rules("podAffinity", json!([term("db", "zone"), term("web", "zone")]));
        check("web", both, "one@a:db two@a:web", &none, "");
    }

    #[test]
    fn pods_run_apart() {
        let none = json!({});
        let apart = |app: &str, topology: &str| rules("podAntiAffinity", json!([term(app, topology)]));
        check("web", apart("web", "zone"), "one@a:web", &none, "c d");
        check("web", apart("web", "kubernetes.io/hostname"), "one@a:web two@c:db", &none, "b c d");
        check("web", none, "one@a:db", &apart("web", "zone"), "c d");
        check("db", json!({}), "one@a:db", &apart("web", "zone"), "a b c d");
    }

    #[test]
    fn terms_name_their_namespaces() {
        let near = |more: Value| {
            let mut term = term("db", "zone");
            term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            rules("podAffinity", json!([term]))
        };
        let others = "one@a:db";
        check("web", near(json!({"namespaces": ["there"]})), others, &json!({}), "");
        check("web", near(json!({"namespaces": ["here", "there"]})), others, &json!({}), "a b");
        check("web", near(json!({"namespaceSelector": {}})), others, &json!({}), "a b");
        let of_team = |team: &str| near(json!({"namespaceSelector": {"matchLabels": {"team": team}}}));
        check("web", of_team("ours"), others, &json!({}), "a b");
        check("web", of_team("theirs"), others, &json!({}), "");
    }

    #[test]
    fn preferences_add_up() {
        let weighted =
            |app: &str, weight: i32| json!([{"weight": weight, "podAffinityTerm": term(app, "zone")}]);
        let spec = json!({"affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted("db", 5)},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted("web", 2)}}});
        let cluster = cluster("a=x b=x c=y d=", "one@a:db two@b:db three@c:web", &json!({}));
        let pod = pod("new", "web", spec);
        let preferences: Vec<i64> =
            cluster.nodes.iter().map(|node| preference(&pod, node, &cluster)).collect();
        assert_eq!(preferences, [10, 10, -2, 0]);
    }
}
