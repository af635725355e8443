//! Generates the RBAC objects of an operator: roles with exactly the permissions it uses, and their bindings.
//!
//! The rules follow from the builder's declarations; the same rules are checked at startup.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifests::ManifestInput;
use crate::rights::required_rules::{MergedRule, Rule, announcement_rule, merge_rules, review_rules};

/// Returns the operator's roles: a ClusterRole if it is cluster-wide; a Role in its namespace if it is bound to one,
/// and a ClusterRole only for cluster-scoped kinds. Leases are in the namespace that the operator runs in.
pub(super) fn roles(description: &ManifestInput<'_>, name: &str) -> Vec<Value> {
    let mut rules = [description.rules, &[Rule::events()]].concat();
    if description.admin.is_some() {
        rules.extend(review_rules());
    }
    let (inside, outside): (Vec<Rule>, Vec<Rule>) = match description.namespace {
        Some(_) => rules.into_iter().partition(|rule| rule.is_namespaced),
        None => (Vec::new(), rules),
    };
    let account = OperatorAccount { name, home: description.home };
    let mut documents = Vec::new();
    if !outside.is_empty() {
        documents.extend(account.role("ClusterRole", name, None, &outside));
    }
    if let Some(namespace) = description.namespace {
        documents.extend(account.role("Role", name, Some(namespace), &inside));
    }
    let announcement = description.admin.map(|_| announcement_rule());
    if let Some(rule) = description.election.rule().or(announcement) {
        let leases = format!("{name}-leases");
        documents.extend(account.role("Role", &leases, Some(description.home), &[rule]));
    }
    documents
}

/// The operator's account.
struct OperatorAccount<'a> {
    name: &'a str,
    home: &'a str,
}

impl OperatorAccount<'_> {
    /// Returns a role and its binding to the account.
    fn role(&self, kind: &str, name: &str, namespace: Option<&str>, rules: &[Rule]) -> [Value; 2] {
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "rules": policy_rules(rules),
        });
        let mut binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.home}],
        });
        if let Some(namespace) = namespace {
            role["metadata"]["namespace"] = json!(namespace);
            binding["metadata"]["namespace"] = json!(namespace);
        }
        [role, binding]
    }
}

/// Returns the rules of a role. Resources of one group with the same verbs are combined.
fn policy_rules(rules: &[Rule]) -> Vec<Value> {
    let mut joined: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
    for MergedRule { group, resource, verbs, .. } in merge_rules(rules) {
        joined.entry((group, verbs.into_iter().collect())).or_default().push(resource);
    }
    let rule =
        |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    joined.into_iter().map(rule).collect()
}
