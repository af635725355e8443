//! Chooses the Node for a Pod, or explains why none fits, with kube-scheduler's wording. This module is pure.
//!
//! The checks run in kube-scheduler's order, and the first one that fails is the reason. Preferences decide among the
//! Nodes that fit, one after the other: taints, affinity, spreading, and finally the number of Pods.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use super::cluster::{ClusterState, node_name};
use super::pod_affinity::{self, AffinityRules};
use super::topology_spread::SpreadRules;
use crate::controllers::node_affinity::{matches_node, preference};
use crate::controllers::tolerations::{is_tolerated, keeps_pods_away, taints_of};

const UNSCHEDULABLE: Misfit = Misfit::permanent("node(s) were unschedulable");
const TAINTED: Misfit = Misfit::permanent("node(s) had untolerated taint(s)");
const NO_NODE_AFFINITY: Misfit = Misfit::permanent("node(s) didn't match Pod's node affinity/selector");
const UNREGISTERED: Misfit = Misfit::permanent("node(s) were not registered yet");

/// The reason a Pod does not fit a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    reason: &'static str,
    /// Whether the Pod might fit if other Pods were gone.
    is_temporary: bool,
}

impl Misfit {
    pub(super) const fn permanent(reason: &'static str) -> Self {
        Self { reason, is_temporary: false }
    }

    pub(super) const fn temporary(reason: &'static str) -> Self {
        Self { reason, is_temporary: true }
    }
}

/// Returns the name of the Node that suits the Pod best, or the message that says why none does. `missing` Nodes are
/// not registered.
pub(super) fn choose_node(pod: &Pod, cluster: &ClusterState, missing: usize) -> Result<String, String> {
    let Some(spec) = &pod.spec else { return Err(String::new()) };
    let affinity = AffinityRules::new(pod, cluster);
    let spread = SpreadRules::new(pod, "DoNotSchedule", cluster);
    let mut misfits = vec![UNREGISTERED; missing];
    let mut fitting = Vec::new();
    for (index, node) in cluster.nodes.iter().enumerate() {
        let misfit =
            node_misfit(spec, node).or_else(|| spread.misfit(node)).or_else(|| affinity.misfit(node));
        match misfit {
            Some(misfit) => misfits.push(misfit),
            None => fitting.push(index),
        }
    }
    let preferred = SpreadRules::new(pod, "ScheduleAnyway", cluster);
    let cost = |index: &usize| {
        let node = &cluster.nodes[*index];
        let liking = preference(spec, node).saturating_add(pod_affinity::preference(pod, node, cluster));
        (
            avoided_taints(spec, node),
            Reverse(liking),
            preferred.unevenness(node),
            cluster.pods_on(*index).count(),
        )
    };
    let best = fitting.into_iter().min_by_key(cost);
    best.map(|index| node_name(&cluster.nodes[index]).to_owned()).ok_or_else(|| describe(spec, &misfits))
}

/// Returns why the Pod does not fit the Node by itself, regardless of other Pods.
fn node_misfit(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    if is_closed(spec, node) {
        Some(UNSCHEDULABLE)
    } else if has_untolerated_taint(spec, node) {
        Some(TAINTED)
    } else {
        (!matches_node(spec, node)).then_some(NO_NODE_AFFINITY)
    }
}

/// Returns whether the Node accepts no new Pods and the Pod does not tolerate that.
fn is_closed(spec: &PodSpec, node: &Node) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    node.spec.as_ref().is_some_and(|node| node.unschedulable == Some(true))
        && !is_tolerated(&taint, spec.tolerations.as_deref().unwrap_or_default())
}

/// Returns whether a taint of the Node keeps the Pod away.
pub(super) fn has_untolerated_taint(spec: &PodSpec, node: &Node) -> bool {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    taints_of(node).iter().any(|taint| keeps_pods_away(taint) && !is_tolerated(taint, tolerations))
}

/// Returns the number of taints because of which the Pod should preferably run elsewhere.
fn avoided_taints(spec: &PodSpec, node: &Node) -> usize {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let soft = taints_of(node).iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !is_tolerated(taint, tolerations)).count()
}

/// Describes why no Node fits, with the count of each reason and the outcome of preemption.
fn describe(spec: &PodSpec, misfits: &[Misfit]) -> String {
    let nodes = misfits.len();
    let reasons = counted(misfits.iter().map(|misfit| misfit.reason));
    let after = if nodes == 0 { String::new() } else { format!(": {reasons}.") };
    format!("0/{nodes} nodes are available{after} {}", describe_preemption(spec, misfits))
}

/// Describes why no Node fits for a reason that concerns only the Pod.
pub(super) fn describe_for_all(spec: &PodSpec, nodes: usize, reason: &str) -> String {
    let misfits = vec![Misfit::permanent(""); nodes];
    format!("0/{nodes} nodes are available: {reason}. {}", describe_preemption(spec, &misfits))
}

/// Describes why no other Pod is preempted for this one. There is no preemption here; the wording is kube-scheduler's
/// for when it finds no Pod with a lower priority.
fn describe_preemption(spec: &PodSpec, misfits: &[Misfit]) -> String {
    if spec.preemption_policy.as_deref() == Some("Never") {
        return "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
            .to_owned();
    }
    let outlook = counted(misfits.iter().map(|misfit| {
        if misfit.is_temporary {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        }
    }));
    let nodes = misfits.len();
    format!("no new claims to deallocate, preemption: 0/{nodes} nodes are available: {outlook}.")
}

/// Counts equal reasons: `1 reason, 2 other reason`, in alphabetical order as in kube-scheduler.
fn counted<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort_unstable();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::cluster::tests::{cluster, pod};
    use super::*;

    /// Checks the choice among the Nodes `a` and `b`, of which `a` has this spec.
    #[track_caller]
    fn check(spec_of_a: Value, others: &str, spec: Value, expected: &str) {
        let mut cluster = cluster("a=x b=y", others, &json!({}));
        let mut node = (*cluster.nodes[0]).clone();
        node.spec = serde_json::from_value(spec_of_a).unwrap();
        cluster.nodes[0] = Arc::new(node);
        let chosen = choose_node(&pod("new", "web", spec), &cluster, 0);
        assert_eq!(chosen.unwrap_or_else(|message| message), expected);
    }

    fn taint(effect: &str) -> Value {
        json!({"taints": [{"key": "own", "value": "me", "effect": effect}]})
    }

    #[test]
    fn the_node_that_suits_best() {
        check(json!({}), "", json!({}), "a");
        check(json!({}), "one@a:db", json!({}), "b");
        check(taint("NoSchedule"), "one@b:db", json!({}), "b");
        check(taint("NoExecute"), "one@b:db", json!({}), "b");
        check(taint("PreferNoSchedule"), "one@b:db", json!({}), "b");
        let tolerations = json!({"tolerations": [{"key": "own", "operator": "Exists"}]});
        check(taint("NoSchedule"), "one@b:db", tolerations.clone(), "a");
        check(taint("PreferNoSchedule"), "one@b:db", tolerations, "a");
        check(json!({"unschedulable": true}), "one@b:db", json!({}), "b");
        let any = json!({"tolerations": [{"operator": "Exists"}]});
        check(json!({"unschedulable": true}), "one@b:db", any, "a");
        let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}}]);
        let liking = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}});
        check(json!({}), "one@b:db", liking, "b");
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]});
        check(json!({}), "one@b:db two@b:db three@a:web", spread, "b");
    }

    #[test]
    fn why_there_is_none() {
        let nowhere = json!({"nodeSelector": {"zone": "z"}});
        let end = "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        check(
            json!({}),
            "",
            nowhere.clone(),
            &format!("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. {end}"),
        );
        check(
            taint("NoSchedule"),
            "",
            nowhere.clone(),
            &format!(
                "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). {end}"
            ),
        );
        check(
            json!({"unschedulable": true}),
            "",
            nowhere,
            &format!(
                "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable. {end}"
            ),
        );
        let apart = json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}]);
        let alone = json!({"nodeSelector": {"zone": "x"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}});
        check(
            json!({}),
            "one@a:web",
            alone,
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
            1 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/2 nodes are available: \
            1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
        );
        let modest = json!({"nodeSelector": {"zone": "z"}, "preemptionPolicy": "Never"});
        check(
            json!({}),
            "",
            modest,
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
            no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
        );
    }
}
