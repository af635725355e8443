//! The least privileges that the explored schedules needed, as a role.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use homeostat_apiserver::auth::Identity;
use serde_json::{Value, json};

use crate::engine::Template;
use crate::state::LIMITED_USER;

/// Verb, group, resource with subresource, namespace.
pub(crate) type Right = (String, String, String, String);

/// Returns a role that allows exactly these rights, as YAML.
pub(crate) fn as_role(name: &str, rights: &BTreeSet<Right>) -> String {
    let mut rules: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (verb, group, resource, _) in rights {
        rules.entry((group, resource)).or_default().insert(verb);
    }
    let mut text = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\nrules:\n"
    );
    for ((group, resource), verbs) in rules {
        let verbs: Vec<&str> = verbs.into_iter().collect();
        let verbs = verbs.iter().map(|verb| format!("\"{verb}\"")).collect::<Vec<_>>().join(", ");
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "- apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [{verbs}]");
    }
    text
}

/// Returns the user that the operator acts as when it has only its least privileges.
pub(crate) fn identity() -> Identity {
    Identity {
        name: LIMITED_USER.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Identity::default()
    }
}

/// Returns the same state with a role that allows exactly these rights, bound to that user.
pub(crate) fn granted(template: &Template, rights: &BTreeSet<Right>) -> Template {
    let rules: Vec<Value> = rights
        .iter()
        .map(|(verb, group, resource, _)| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}))
        .collect();
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": LIMITED_USER}, "rules": rules});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": LIMITED_USER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": LIMITED_USER},
        "subjects": [{"apiGroup": group, "kind": "User", "name": LIMITED_USER}]});
    template.with_objects(&[("clusterroles", role), ("clusterrolebindings", binding)])
}
