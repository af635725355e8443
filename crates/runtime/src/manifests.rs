//! What a cluster needs to run the operator: its definitions, the rights it uses and no more, and a Deployment.
//!
//! The rights follow from what the builder declared; the same rules are checked at start.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rule::{Rule, merge};

/// What the manifests are made from.
pub(crate) struct Description<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) image: &'a str,
    pub(crate) definitions: &'a [Value],
    pub(crate) rules: &'a [Rule],
    pub(crate) uses_leases: bool,
    pub(crate) admin_port: Option<u16>,
}

/// Where the operator runs and keeps its lease.
pub(crate) const HOME_NAMESPACE: &str = "default";

/// The manifests, in the order `kubectl apply` should take them.
pub(crate) fn manifests(description: &Description<'_>) -> Vec<Value> {
    let mut documents = description.definitions.to_vec();
    let name = object_name(description.name);
    documents.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": HOME_NAMESPACE},
    }));
    documents.extend(roles(description, &name));
    documents.push(deployment(description, &name));
    documents
}

/// The documents as one YAML stream. JSON is YAML, and one object per document stays readable by machines.
pub(crate) fn as_yaml(documents: &[Value]) -> String {
    documents.iter().flat_map(|document| ["---\n".to_owned(), format!("{document:#}\n")]).collect()
}

/// Operator names are domains; object names take them as they are, only lower case.
pub(crate) fn object_name(name: &str) -> String {
    let clean = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
    name.to_lowercase().chars().map(clean).collect()
}

/// A cluster-wide operator gets a ClusterRole; one bound to a namespace gets a Role there, and a ClusterRole only for
/// kinds that live in no namespace.
fn roles(description: &Description<'_>, name: &str) -> Vec<Value> {
    let (inside, outside): (Vec<Rule>, Vec<Rule>) = match description.namespace {
        Some(_) => description.rules.iter().cloned().partition(|rule| rule.is_namespaced),
        None => (Vec::new(), description.rules.to_vec()),
    };
    let mut documents = Vec::new();
    if !outside.is_empty() {
        documents.extend(role("ClusterRole", name, None, &policy(&outside)));
    }
    if let Some(namespace) = description.namespace {
        documents.extend(role("Role", name, Some(namespace), &policy(&inside)));
    }
    let mut own = vec![json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]})];
    if description.uses_leases {
        let verbs = ["get", "list", "create", "update", "delete"];
        own.push(json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}));
        documents.extend(role("Role", &format!("{name}-leases"), Some(HOME_NAMESPACE), &own.split_off(1)));
    }
    let (kind, namespace) = match description.namespace {
        Some(namespace) => ("Role", Some(namespace)),
        None => ("ClusterRole", None),
    };
    documents.extend(role(kind, &format!("{name}-events"), namespace, &own));
    documents
}

/// A role and its binding to the operator's account.
fn role(kind: &str, name: &str, namespace: Option<&str>, rules: &[Value]) -> [Value; 2] {
    let account = name.trim_end_matches("-leases").trim_end_matches("-events");
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    });
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME_NAMESPACE}],
    });
    if let Some(namespace) = namespace {
        role["metadata"]["namespace"] = json!(namespace);
        binding["metadata"]["namespace"] = json!(namespace);
    }
    [role, binding]
}

/// Rules of a role: resources of one group with the same verbs are joined.
fn policy(rules: &[Rule]) -> Vec<Value> {
    let mut joined: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), (verbs, _)) in merge(rules) {
        joined.entry((group, verbs.into_iter().collect())).or_default().push(resource);
    }
    let rule =
        |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    joined.into_iter().map(rule).collect()
}

fn deployment(description: &Description<'_>, name: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": name});
    let mut container = json!({
        "name": "operator", "image": description.image,
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    if let Some(port) = description.admin_port {
        container["ports"] = json!([{"name": "admin", "containerPort": port}]);
        container["livenessProbe"] = json!({"httpGet": {"path": "/healthz", "port": "admin"}});
        container["readinessProbe"] = json!({"httpGet": {"path": "/readyz", "port": "admin"}});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": HOME_NAMESPACE, "labels": labels},
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
    use crate::rule::{READ, WRITE};

    fn shown(namespace: Option<&str>) -> Vec<String> {
        let rules =
            [Rule::on::<ConfigMap>("", WRITE), Rule::on::<Node>("", READ), Rule::on::<ConfigMap>("", READ)];
        let description = Description {
            name: "web.demo.dev",
            namespace,
            image: "web:1",
            definitions: &[],
            rules: &rules,
            uses_leases: false,
            admin_port: Some(8080),
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
    fn a_cluster_wide_operator() {
        let expected = [
            "ServiceAccount default",
            "ClusterRole null configmaps=6 nodes=3",
            "ClusterRoleBinding null",
            "ClusterRole null events=2",
            "ClusterRoleBinding null",
            "Deployment default",
        ];
        assert_eq!(shown(None), expected);
    }

    #[test]
    fn a_namespaced_operator_gets_no_more_than_its_namespace() {
        let expected = [
            "ServiceAccount default",
            "ClusterRole null nodes=3",
            "ClusterRoleBinding null",
            "Role shop configmaps=6",
            "RoleBinding shop",
            "Role shop events=2",
            "RoleBinding shop",
            "Deployment default",
        ];
        assert_eq!(shown(Some("shop")), expected);
    }
}
