//! Defines the default roles and bindings of every cluster: facts about the v1.36 API, in `facts/roles.json`.
//!
//! In the file, a list is a string of words, the core group is `core`, and `into`/`gathers` name the aggregation
//! labels. Roles for controllers that do not run here are left out.

use homeostat_core::Key;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::auth::{RBAC_GROUP, fill_aggregated};

const FACTS: &str = include_str!("../../facts/roles.json");
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefaultRoles {
    cluster_roles: Vec<DefaultRole>,
    roles: Vec<DefaultRole>,
    cluster_role_bindings: Vec<Binding>,
    role_bindings: Vec<Binding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefaultRole {
    name: String,
    namespace: String,
    /// The aggregation that this role is part of.
    into: String,
    /// The aggregation that this role combines.
    gathers: String,
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Rule {
    verbs: String,
    groups: String,
    resources: String,
    names: String,
    paths: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Binding {
    name: String,
    namespace: String,
    /// The kind and name.
    role: String,
    /// The kind and name of each; for a ServiceAccount, its namespace and name.
    subjects: Vec<String>,
}

/// Returns all of them, ready to be created.
pub(super) fn default_roles() -> Vec<(Key, Value)> {
    let facts = serde_json::from_str::<DefaultRoles>(FACTS).expect("the file is checked by a test");
    let mut objects = Vec::new();
    objects.extend(facts.cluster_roles.iter().map(|role| role.object("ClusterRole", "clusterroles")));
    objects.extend(facts.roles.iter().map(|role| role.object("Role", "roles")));
    fill_aggregated(&mut objects);
    objects.extend(
        facts.cluster_role_bindings.iter().map(|one| one.object("ClusterRoleBinding", "clusterrolebindings")),
    );
    objects.extend(facts.role_bindings.iter().map(|one| one.object("RoleBinding", "rolebindings")));
    objects
}

impl DefaultRole {
    fn object(&self, kind: &str, resource: &str) -> (Key, Value) {
        let mut object = new_object(kind, &self.namespace, &self.name);
        for aggregation in self.into.split_whitespace() {
            object["metadata"]["labels"][format!("{AGGREGATE_TO}{aggregation}")] = "true".into();
        }
        if !self.gathers.is_empty() {
            let label = format!("{AGGREGATE_TO}{}", self.gathers);
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        }
        object["rules"] = self.rules.iter().map(Rule::object).collect();
        (Key::new(RBAC_GROUP, resource, &self.namespace, &self.name), object)
    }
}

impl Rule {
    fn object(&self) -> Value {
        let mut rule = json!({"verbs": split_words(&self.verbs)});
        for (field, text) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !text.is_empty() {
                rule[field] = json!(split_words(text));
            }
        }
        rule
    }
}

fn split_words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| if word == "core" { "" } else { word }).collect()
}

impl Binding {
    fn object(&self, kind: &str, resource: &str) -> (Key, Value) {
        let mut object = new_object(kind, &self.namespace, &self.name);
        let (role_kind, role) = self.role.split_once(' ').expect("kind and name, checked by a test");
        object["roleRef"] = json!({"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role});
        if !self.subjects.is_empty() {
            object["subjects"] = self.subjects.iter().map(|subject| subject_object(subject)).collect();
        }
        (Key::new(RBAC_GROUP, resource, &self.namespace, &self.name), object)
    }
}

fn subject_object(text: &str) -> Value {
    let (kind, name) = text.split_once(' ').expect("kind and name, checked by a test");
    match name.split_once('/') {
        Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
        None => json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name}),
    }
}

fn new_object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": kind, "metadata": {
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    }});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_api::storage_identity::ResourceIdentity;
    use homeostat_store::memory::Memory;
    use homeostat_store::{Expect, Op, SharedStore, Txn, Value as Stored};

    use super::*;
    use crate::auth::{Authorizer, Identity, RequestAttributes, RoleWrite};

    async fn authorizer() -> Authorizer {
        let store: SharedStore = Arc::new(Memory::new());
        let put =
            |(key, object): (Key, Value)| (key, Expect::Absent, Op::Put(Stored::plain(object.to_string())));
        let mut steps = default_roles().into_iter().map(put).collect::<Vec<_>>();
        for (user, role) in [("ann", "admin"), ("ed", "edit"), ("vi", "view")] {
            let binding = json!({"roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": user}]});
            let key = Key::new(RBAC_GROUP, "rolebindings", "a", user);
            steps.push((key, Expect::Absent, Op::Put(Stored::plain(binding.to_string()))));
        }
        store.commit(Txn { steps }).await.unwrap();
        Authorizer::new(store)
    }

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), groups: vec!["system:authenticated".into()], ..Identity::default() }
    }

    #[tokio::test]
    async fn default_roles_allow_the_expected_actions() {
        let authorizer = authorizer().await;
        let may = |user: &Identity, verb: &str, group: &str, resource: &str, namespace: &str| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let what =
                RequestAttributes::Resource { verb, group, resource, subresource, namespace, name: "x" };
            authorizer.decide(user, &what).is_allowed()
        };
        let users = ["ann", "ed", "vi", "joe"].map(user);
        for (verb, group, resource, namespace, expected) in [
            ("get", "", "pods", "a", [true, true, true, false]),
            ("get", "", "pods", "b", [false; 4]),
            ("list", "", "pods", "", [false; 4]),
            ("get", "", "pods/log", "a", [true, true, true, false]),
            ("create", "", "pods/exec", "a", [true, true, false, false]),
            ("create", "apps", "deployments", "a", [true, true, false, false]),
            ("update", "apps", "deployments/scale", "a", [true, true, false, false]),
            ("get", "", "secrets", "a", [true, true, false, false]),
            ("create", "", "serviceaccounts/token", "a", [true, true, false, false]),
            ("create", "rbac.authorization.k8s.io", "rolebindings", "a", [true, false, false, false]),
            ("get", "rbac.authorization.k8s.io", "clusterroles", "a", [false; 4]),
            ("create", "", "nodes", "", [false; 4]),
            ("create", "", "resourcequotas", "a", [false; 4]),
            ("escalate", "rbac.authorization.k8s.io", "roles", "a", [false; 4]),
            ("create", "authorization.k8s.io", "selfsubjectaccessreviews", "", [true; 4]),
            ("create", "authorization.k8s.io", "subjectaccessreviews", "", [false; 4]),
        ] {
            let found = users.each_ref().map(|user| may(user, verb, group, resource, namespace));
            assert_eq!(
                found, expected,
                "{verb} {resource}.{group} in {namespace:?} by admin, edit, view, nobody"
            );
        }
    }

    #[tokio::test]
    async fn anonymous_sees_health_and_version_only() {
        let authorizer = authorizer().await;
        for (path, anonymous, everyone) in [
            ("/healthz", true, true),
            ("/livez", true, true),
            ("/readyz", true, true),
            ("/version", true, true),
            ("/version/", true, true),
            ("/api", false, true),
            ("/apis/apps/v1", false, true),
            ("/openapi/v3", false, true),
            ("/metrics", false, false),
            ("/", false, false),
            ("/healthz/../api", false, false),
        ] {
            let what = RequestAttributes::Path { verb: "get", path };
            let found =
                [Identity::anonymous(), user("joe")].map(|who| authorizer.decide(&who, &what).is_allowed());
            assert_eq!(found, [anonymous, everyone], "{path}");
            let what = RequestAttributes::Path { verb: "post", path };
            assert!(!authorizer.decide(&Identity::anonymous(), &what).is_allowed(), "post {path}");
        }
    }

    #[tokio::test]
    async fn nobody_grants_permissions_that_they_lack() {
        let authorizer = authorizer().await;
        let ann = user("ann");
        let rules = |resource: &str, verb: &str| {
            json!({"metadata": {"name": "x"},
                "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]})
        };
        let check = |resource: &str, new: &Value, expected: Option<&str>| {
            let write = RoleWrite {
                storage: ResourceIdentity::BuiltIn(RBAC_GROUP, resource),
                namespace: "a",
                name: "",
            };
            let found = authorizer.check_role_write(&ann, &write, new, None);
            assert_eq!(found.err().map(|status| status.message).as_deref(), expected);
        };
        check("roles", &rules("pods", "get"), None);
        check(
            "roles",
            &rules("nodes", "get"),
            Some(
                "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"ann\" \
                 (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                 held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}",
            ),
        );
        let bind =
            |role: &str| json!({"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": role}});
        check("rolebindings", &bind("edit"), None);
        check(
            "rolebindings",
            &bind("cluster-admin"),
            Some(
                "rolebindings.rbac.authorization.k8s.io \"x\" is forbidden: user \"ann\" \
                 (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                 held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], \
                 Verbs:[\"*\"]}",
            ),
        );
        check(
            "rolebindings",
            &bind("gone"),
            Some(r#"clusterroles.rbac.authorization.k8s.io "gone" not found"#),
        );
    }

    #[test]
    fn aggregated_roles_show_the_sum_of_their_parts() {
        let objects = default_roles();
        let rules = |name: &str| {
            let key = Key::new(RBAC_GROUP, "clusterroles", "", name);
            let object = objects.iter().find(|(found, _)| *found == key).expect("a default role");
            object.1["rules"].as_array().unwrap().len()
        };
        assert!(rules("admin") > rules("edit") && rules("edit") > rules("view") && rules("view") > 0);
    }
}
