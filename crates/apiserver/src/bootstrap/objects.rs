//! Defines the default objects of every cluster. This is only data: at startup, the server writes the missing ones in a
//! single commit.
//!
//! They contain the fields that a user would write, plus the status that makes them complete; the server adds field
//! managers, uids and times. The `background` tasks provide the objects that every namespace contains.

use std::net::{IpAddr, SocketAddr};

use homeostat_api::kinds::core::service::{API_SERVER_ADDRESS, SERVICE_NETWORK};
use homeostat_core::Key;
use serde_json::{Value, json};

use super::roles;

/// The namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The values that some of the objects contain.
#[derive(Clone, Debug, Default)]
pub struct BootstrapConfig {
    /// The address on which the server listens; `None` if it is embedded and has no socket.
    pub address: Option<SocketAddr>,
    /// The CA's certificate in PEM form; empty if there is none.
    pub ca_pem: String,
}

/// Returns all of them with their keys, in an order in which they can be created one by one.
pub fn default_objects(config: &BootstrapConfig) -> Vec<(Key, Value)> {
    let mut objects = NAMESPACES.map(namespace_object).to_vec();
    objects.extend(roles::default_roles());
    objects.extend(priority_classes());
    objects.extend(flow_control());
    objects.extend(api_server(config.address));
    if !config.ca_pem.is_empty() {
        objects.push(delegated_authentication(&config.ca_pem));
    }
    objects
}

fn namespace_object(name: &str) -> (Key, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    (Key::new("", "namespaces", "", name), object)
}

fn priority_classes() -> impl Iterator<Item = (Key, Value)> {
    let classes = [
        ("system-cluster-critical", 2_000_000_000, "Pods the cluster needs; they may move to another node."),
        ("system-node-critical", 2_000_001_000, "Pods their node needs; they may not move."),
    ];
    classes.into_iter().map(|(name, value, description)| {
        let object = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority"});
        (Key::new("scheduling.k8s.io", "priorityclasses", "", name), object)
    })
}

/// Returns Kubernetes' two mandatory priority levels and flow schemas. They are shown but not enforced; `serve::limits`
/// applies instead.
fn flow_control() -> Vec<(Key, Value)> {
    let group = "flowcontrol.apiserver.k8s.io";
    let level = |name: &str, spec: Value| {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "PriorityLevelConfiguration",
            "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
            "spec": spec, "status": {}});
        (Key::new(group, "prioritylevelconfigurations", "", name), object)
    };
    let schema = |name: &str, precedence: u32, groups: &[&str]| {
        let subjects = groups.iter().map(|name| json!({"kind": "Group", "group": {"name": name}}));
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "FlowSchema",
            "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
            "spec": {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": name}, "rules": [{
                "subjects": subjects.collect::<Vec<_>>(),
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
                    "clusterScope": true}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]},
            "status": {}});
        (Key::new(group, "flowschemas", "", name), object)
    };
    let mut catch_all = schema("catch-all", 10_000, &["system:unauthenticated", "system:authenticated"]);
    catch_all.1["spec"]["distinguisherMethod"] = json!({"type": "ByUser"});
    vec![
        level(
            "exempt",
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
        ),
        level(
            "catch-all",
            json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0,
                "limitResponse": {"type": "Reject"}}}),
        ),
        schema("exempt", 1, &["system:masters"]),
        catch_all,
    ]
}

/// Returns the Service through which programs in the cluster find the API, and its endpoints. The background tasks
/// re-create them when they are deleted.
pub(super) fn api_server(address: Option<SocketAddr>) -> Vec<(Key, Value)> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let port = address.map_or(443, |address| address.port());
    let ip = API_SERVER_ADDRESS.to_string();
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]},
        "status": {"loadBalancer": {}}});
    let (network, bits) = SERVICE_NETWORK;
    let range = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [format!("{network}/{bits}")]}, "status": {}});
    let mut objects = vec![
        (Key::new("", "services", "default", "kubernetes"), service),
        (Key::new("networking.k8s.io", "servicecidrs", "", "kubernetes"), range),
    ];
    objects.extend(address.map(endpoint_objects).into_iter().flatten());
    objects
}

fn endpoint_objects(address: SocketAddr) -> [(Key, Value); 2] {
    let family = if matches!(address.ip(), IpAddr::V4(_)) { "IPv4" } else { "IPv6" };
    let (ip, port) = (address.ip().to_string(), address.port());
    let label = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": label},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family, "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}]});
    [
        (Key::new("", "endpoints", "default", "kubernetes"), endpoints),
        (Key::new("discovery.k8s.io", "endpointslices", "default", "kubernetes"), slice),
    ]
}

/// Returns the ConfigMap that tells servers that delegate authentication to us which clients we trust.
fn delegated_authentication(ca_pem: &str) -> (Key, Value) {
    let name = "extension-apiserver-authentication";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"}, "data": {"client-ca-file": ca_pem}});
    (Key::new("", "configmaps", "kube-system", name), object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_object_is_of_a_served_kind_and_agrees_with_its_key() {
        let config = BootstrapConfig { address: Some(([127, 0, 0, 1], 6443).into()), ca_pem: "PEM".into() };
        let rows = homeostat_api::kinds::built_in_rows();
        let mut seen = BTreeSet::new();
        for (key, object) in default_objects(&config) {
            let row = rows.iter().find(|row| &*row.group == key.group() && &*row.plural == key.resource());
            let row = row.unwrap_or_else(|| panic!("{key} is not served"));
            assert_eq!(object["kind"], *row.kind, "{key}");
            assert_eq!(object["apiVersion"], row.api_version(), "{key}");
            assert_eq!(object["metadata"]["name"], key.name());
            assert_eq!(
                object["metadata"]["namespace"].as_str().unwrap_or_default(),
                key.namespace(),
                "{key}"
            );
            assert_eq!(row.namespaced, !key.namespace().is_empty(), "{key}");
            assert!(seen.insert(key.clone()), "{key} is listed twice");
        }
        assert!(seen.len() > 60);
    }
}
