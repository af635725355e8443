//! Collects the state on which the scheduler bases its decisions: Nodes, the Pods that are bound to them, and the
//! labels of Namespaces. It performs no I/O.
//!
//! Finished Pods occupy no Node and are left out. Pods that are being deleted still occupy one.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::controllers::node_affinity::label;

/// The labels of each Namespace.
pub(super) type NamespaceLabels = BTreeMap<String, BTreeMap<String, String>>;

/// The scheduler's view of the cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The Pods that occupy a Node, with the index of the Node in `nodes`.
    pub(super) pods: Vec<(usize, Arc<Pod>)>,
    pub(super) namespaces: NamespaceLabels,
}

impl ClusterState {
    /// Collects the Pods that `node_of` places on one of the Nodes.
    pub(super) fn new(
        nodes: Vec<Arc<Node>>,
        pods: Vec<Arc<Pod>>,
        namespaces: NamespaceLabels,
        node_of: impl Fn(&Pod) -> Option<String>,
    ) -> Self {
        let by_name: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(index, node)| (node_name(node), index)).collect();
        let placed = |pod: Arc<Pod>| {
            let index = *by_name.get(node_of(&pod).filter(|_| !is_finished(&pod))?.as_str())?;
            Some((index, pod))
        };
        let pods = pods.into_iter().filter_map(placed).collect();
        Self { nodes, pods, namespaces }
    }

    /// Returns the Pods on a Node.
    pub(super) fn pods_on(&self, node: usize) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(move |(index, _)| *index == node).map(|(_, pod)| &**pod)
    }

    /// Returns all placed Pods, each with its Node's value of this label. Pods on Nodes without it are left out.
    pub(super) fn pods_by_label<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a str, &'a Pod)> {
        self.pods
            .iter()
            .filter_map(move |(node, pod)| Some((label(&self.nodes[*node], key)?.as_str(), &**pod)))
    }
}

/// Returns the name of a Node.
pub(super) fn node_name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the namespace of a Pod.
pub(super) fn namespace_of(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// Returns whether the selector matches the labels of the Pod.
pub(super) fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    selector.matches(|key| pod.metadata.labels.as_ref()?.get(key).map(String::as_str))
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a cluster of Nodes, given as `name=zone`, and Pods, given as `name@node:app`, in the namespace `here`;
    /// `patch` changes every Pod's spec.
    pub(in super::super) fn cluster(nodes: &str, pods: &str, spec: &Value) -> ClusterState {
        let node = |word: &str| {
            let (name, zone) = word.split_once('=').unwrap();
            let mut labels = json!({"kubernetes.io/hostname": name});
            if !zone.is_empty() {
                labels["zone"] = zone.into();
            }
            Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
        };
        let placed = |word: &str| {
            let (name, rest) = word.split_once('@').unwrap();
            let (node, app) = rest.split_once(':').unwrap();
            let mut spec = spec.clone();
            spec["nodeName"] = node.into();
            Arc::new(pod(name, app, spec))
        };
        let namespaces = [("here", "ours"), ("there", "theirs")]
            .map(|(name, team)| (name.to_owned(), BTreeMap::from([("team".to_owned(), team.to_owned())])));
        ClusterState::new(
            nodes.split_whitespace().map(node).collect(),
            pods.split_whitespace().map(placed).collect(),
            namespaces.into(),
            |pod| pod.spec.as_ref()?.node_name.clone(),
        )
    }

    /// Returns a Pod in the namespace `here` with the label `app`.
    pub(in super::super) fn pod(name: &str, app: &str, mut spec: Value) -> Pod {
        spec["containers"] = json!([]);
        let metadata = json!({"name": name, "namespace": "here", "labels": {"app": app}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn finished_pods_and_those_elsewhere_occupy_nothing() {
        let mut cluster = cluster("a= b=", "one@a:x two@gone:x three@b:x", &json!({}));
        assert_eq!(cluster.pods.len(), 2);
        let ended = json!({"phase": "Succeeded"});
        let pods = cluster.pods.drain(..).map(|(_, pod)| {
            let mut pod = (*pod).clone();
            pod.status = serde_json::from_value(ended.clone()).unwrap();
            Arc::new(pod)
        });
        let pods = pods.collect();
        let again = ClusterState::new(cluster.nodes, pods, NamespaceLabels::new(), |_| Some("a".to_owned()));
        assert!(again.pods.is_empty());
    }
}
