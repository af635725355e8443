//! Generates the manifests that a cluster needs to run the operator: its definitions, its RBAC objects
//! (`rbac_manifests`) and a Deployment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};

use super::rbac_manifests::roles;
use crate::admin_address::{POD_NAME_VARIABLE, POD_NAMESPACE_VARIABLE};
use crate::election::Election;
use crate::kind::definition::Definition;
use crate::kind::object_name;
use crate::rights::required_rules::Rule;

/// The input of the manifests.
pub(crate) struct ManifestInput<'a> {
    pub(crate) name: &'a str,
    /// The namespace in which the operator runs and keeps its leases.
    pub(crate) home: &'a str,
    /// The only namespace it works in, if there is one.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) image: &'a str,
    /// The program's own arguments, before the operator's.
    pub(crate) own_arguments: &'a [String],
    pub(crate) definitions: &'a [Arc<Definition>],
    pub(crate) rules: &'a [Rule],
    pub(crate) election: Election,
    /// The address at which the admin pages are served.
    pub(crate) admin: Option<SocketAddr>,
}

/// The default namespace in which the operator runs and keeps its leases.
pub(crate) const HOME_NAMESPACE: &str = "default";

/// Returns the manifests, in the order in which to apply them.
pub(crate) fn manifests(description: &ManifestInput<'_>) -> Vec<Value> {
    let mut documents = Vec::new();
    // The namespace that it works in belongs to the user; the one it runs in is created with the operator, except
    // `default`, which every cluster has.
    if description.home != HOME_NAMESPACE {
        documents
            .push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": description.home}}));
    }
    documents.extend(description.definitions.iter().map(|definition| Value::clone(definition)));
    let name = object_name(description.name);
    documents.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": description.home},
    }));
    documents.extend(roles(description, &name));
    documents.push(deployment(description, &name));
    documents
}

/// Returns the documents as one YAML stream. JSON is YAML, and one object per document stays readable by machines.
pub(crate) fn as_yaml(documents: &[Value]) -> String {
    documents.iter().flat_map(|document| ["---\n".to_owned(), format!("{document:#}\n")]).collect()
}

/// Returns the address that means all addresses of the same family.
fn unspecified_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn deployment(description: &ManifestInput<'_>, name: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": name});
    // It must never start its own control plane, which would become ready but do nothing for the cluster.
    let mut arguments = [description.own_arguments, &["--in-cluster".to_owned()]].concat();
    let mut container = json!({
        "name": "operator", "image": description.image,
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    if let Some(address) = description.admin {
        container["ports"] = json!([{"name": "admin", "containerPort": address.port()}]);
        if address.ip().is_loopback() {
            // Probes come from outside the container.
            let everywhere = SocketAddr::new(unspecified_address(address.ip()), address.port());
            arguments.extend(["--serve".to_owned(), everywhere.to_string()]);
        }
        let variable =
            |name: &str, field: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
        // `why` uses these to find the Pod, and queries it through the API server.
        container["env"] = json!([
            variable(POD_NAME_VARIABLE, "metadata.name"),
            variable(POD_NAMESPACE_VARIABLE, "metadata.namespace"),
        ]);
        container["livenessProbe"] = json!({"httpGet": {"path": "/healthz", "port": "admin"}});
        container["readinessProbe"] = json!({"httpGet": {"path": "/readyz", "port": "admin"}});
    }
    container["args"] = json!(arguments);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": description.home, "labels": labels},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": name, "containers": [container]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;
    use crate::rights::required_rules::{READ, WRITE};

    /// The operator needs permissions to answer `why`: to announce itself, and to ask whom a token belongs to and what
    /// its owner may read.
    #[test]
    fn an_operator_with_admin_pages_may_review_callers_and_announce_itself() {
        let roles = |admin: Option<&str>, namespace| {
            let description = ManifestInput {
                name: "web.demo.dev",
                home: "default",
                namespace,
                image: "web:1",
                own_arguments: &[],
                definitions: &[],
                rules: &[],
                election: Election::None,
                admin: admin.and_then(|address| address.parse().ok()),
            };
            let documents = manifests(&description);
            let rules =
                documents.iter().flat_map(|document| document["rules"].as_array().into_iter().flatten());
            let rules =
                rules.map(|rule| format!("{} {}", rule["resources"][0], rule["verbs"]).replace('"', ""));
            rules.filter(|rule| !rule.starts_with("events")).collect::<Vec<_>>()
        };
        let needed =
            ["tokenreviews [create]", "subjectaccessreviews [create]", "leases [create,delete,patch]"];
        assert_eq!(roles(Some("0.0.0.0:8080"), None), needed);
        assert_eq!(roles(Some("0.0.0.0:8080"), Some("a")), needed, "reviews are not in a namespace");
        assert!(roles(None, None).is_empty());
    }

    fn shown(home: &str, namespace: Option<&str>) -> Vec<String> {
        let rules =
            [Rule::on::<ConfigMap>("", WRITE), Rule::on::<Node>("", READ), Rule::on::<ConfigMap>("", READ)];
        let description = ManifestInput {
            name: "web.demo.dev",
            home,
            namespace,
            image: "web:1",
            own_arguments: &[],
            definitions: &[],
            rules: &rules,
            election: Election::Shards(4),
            admin: None,
        };
        let line = |document: &Value| {
            let rules = document["rules"].as_array().cloned().unwrap_or_default();
            let rules = rules
                .iter()
                .map(|rule| format!(" {}={}", rule["resources"][0], rule["verbs"].as_array().unwrap().len()));
            format!("{} {}{}", document["kind"], document["metadata"]["namespace"], rules.collect::<String>())
                .replace('"', "")
        };
        manifests(&description).iter().map(line).collect()
    }

    #[test]
    fn probes_reach_the_admin_pages_also_when_they_are_served_to_the_machine_only() {
        let container = |address: &str| {
            let description = ManifestInput {
                name: "web.demo.dev",
                home: "default",
                namespace: None,
                image: "web:1",
                own_arguments: &["run".to_owned(), "--".to_owned()],
                definitions: &[],
                rules: &[],
                election: Election::None,
                admin: address.parse().ok(),
            };
            let deployment = manifests(&description).pop().expect("the deployment is last");
            deployment["spec"]["template"]["spec"]["containers"][0].clone()
        };
        let arguments = |address| container(address)["args"].clone();
        assert_eq!(
            arguments("127.0.0.1:8080"),
            json!(["run", "--", "--in-cluster", "--serve", "0.0.0.0:8080"])
        );
        assert_eq!(arguments("[::1]:80"), json!(["run", "--", "--in-cluster", "--serve", "[::]:80"]));
        assert_eq!(arguments("0.0.0.0:8080"), json!(["run", "--", "--in-cluster"]));
        assert_eq!(container("127.0.0.1:8080")["ports"][0]["containerPort"], 8080);
        assert_eq!(
            container("127.0.0.1:8080")["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.name"
        );
        assert_eq!(container("none")["env"], Value::Null);
        assert_eq!(container("none")["readinessProbe"], Value::Null);
    }

    #[test]
    fn a_cluster_wide_operator() {
        let expected = [
            "ServiceAccount default",
            "ClusterRole null configmaps=6 events=2 nodes=3",
            "ClusterRoleBinding null",
            "Role default leases=5",
            "RoleBinding default",
            "Deployment default",
        ];
        assert_eq!(shown("default", None), expected);
    }

    #[test]
    fn a_namespaced_operator_gets_no_more_than_its_namespace() {
        let expected = [
            "Namespace null",
            "ServiceAccount web-system",
            "ClusterRole null nodes=3",
            "ClusterRoleBinding null",
            "Role shop configmaps=6 events=2",
            "RoleBinding shop",
            "Role web-system leases=5",
            "RoleBinding web-system",
            "Deployment web-system",
        ];
        assert_eq!(shown("web-system", Some("shop")), expected);
    }
}
