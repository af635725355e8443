//! Compiles every role and binding and indexes them by subject, so that a decision touches only the caller's bindings.
//!
//! Reading order: `roles` (the rules of roles, including aggregated ones), `bindings` (who has which role), then the
//! [`RbacIndex`] that joins them.
//!
//! **Invariant:** the index is a pure fold over the stored objects: applying each change with [`RbacIndex::apply`], in
//! any order, yields the same policy as reading everything again. **Invariant:** an object is judged by where it is
//! stored, never by its own content: a cluster-wide role or binding is one without a namespace in its key, and objects
//! stored elsewhere grant nothing.

mod bindings;
mod roles;

use std::collections::{BTreeMap, HashMap, HashSet};

use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use serde::Deserialize;

use self::bindings::{Binding, Bindings};
use self::roles::{ClusterRoles, Role, Roles, StoredRole};
use super::rule::Rule;
use super::{Decision, Identity, RequestAttributes};

pub(super) use self::bindings::{RoleRef, StoredBinding};
pub(super) use self::roles::RuleSet;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// The resources of the group, in the order in which they should be read.
pub(super) const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
/// The prefix of the user names of service accounts.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// How many missing roles one refusal lists. The list is sent with every refused request, and whoever writes bindings
/// controls its length.
const MISSING_ROLES_SHOWN_MAX: usize = 100;
/// If a user has at least this many bindings, a decision remembers which roles it has checked. Nearly all users have
/// fewer.
const BINDINGS_REMEMBERED_FROM: usize = 16;

/// Rules, roles and bindings in the form that decisions need.
#[derive(Debug, Default)]
pub(super) struct RbacIndex {
    cluster_roles: ClusterRoles,
    /// By namespace.
    roles: HashMap<Box<str>, Roles>,
    cluster_bindings: Bindings,
    bindings: HashMap<Box<str>, Bindings>,
}

impl RbacIndex {
    /// Applies changes: the new bytes of each object, or `None` for a deleted one.
    pub(super) fn apply_all<'a>(&mut self, changes: impl Iterator<Item = (&'a Key, Option<&'a [u8]>)>) {
        let mut must_resolve = false;
        for (key, bytes) in changes {
            must_resolve |= self.apply(key, bytes);
        }
        if must_resolve {
            self.resolve();
        }
    }

    /// Applies one change: the object's new bytes, or `None` if it was deleted. Returns whether aggregated roles must
    /// be [resolved](Self::resolve) again. An object that cannot be parsed grants nothing.
    fn apply(&mut self, key: &Key, bytes: Option<&[u8]>) -> bool {
        let (namespace, name) = (key.namespace(), key.name());
        match (ResourceIdentity::of_key(key), namespace) {
            (ResourceIdentity::BuiltIn(GROUP, "clusterroles"), "") => {
                self.cluster_roles.replace(name, bytes.and_then(parse_object::<StoredRole>));
                return true;
            }
            (ResourceIdentity::BuiltIn(GROUP, "clusterrolebindings"), "") => {
                let new = bytes.and_then(parse_object::<StoredBinding>);
                self.cluster_bindings.replace(name, new.map(|one| Binding::new("", name, one)));
            }
            // A namespaced object without a namespace, or the reverse, is ignored.
            (_, "") => {}
            (ResourceIdentity::BuiltIn(GROUP, "roles"), _) => {
                self.apply_role(namespace, name, bytes.and_then(parse_object));
            }
            (ResourceIdentity::BuiltIn(GROUP, "rolebindings"), _) => {
                let new = bytes.and_then(parse_object::<StoredBinding>);
                let bindings = self.bindings.entry(namespace.into()).or_default();
                bindings.replace(name, new.map(|one| Binding::new(namespace, name, one)));
                if bindings.is_empty() {
                    self.bindings.remove(namespace);
                }
            }
            _ => {}
        }
        false
    }

    fn apply_role(&mut self, namespace: &str, name: &str, new: Option<StoredRole>) {
        let roles = self.roles.entry(namespace.into()).or_default();
        match new {
            Some(role) => drop(roles.insert(name.into(), role.into_role())),
            None => drop(roles.remove(name)),
        }
        if roles.is_empty() {
            self.roles.remove(namespace);
        }
    }

    /// Gives every aggregated ClusterRole the rules of the roles that it selects, directly or through other
    /// aggregated ones.
    fn resolve(&mut self) {
        self.cluster_roles.resolve();
    }

    /// Returns whether the user may do this.
    pub(super) fn allows(&self, who: &Identity, what: &RequestAttributes<'_>) -> bool {
        self.granting(who, what).is_some()
    }

    /// Decides whether the user may do this, and names the binding that allows it.
    pub(super) fn decide(&self, who: &Identity, what: &RequestAttributes<'_>) -> Decision {
        self.granting(who, what).map_or(Decision::NoOpinion, |binding| {
            Decision::Allow(format!("RBAC: allowed by {}", binding.shown(who)))
        })
    }

    /// Returns the first binding that allows the request. A role that does not allow it is not checked again, since a
    /// role with many rules can be bound often.
    fn granting<'a>(&'a self, who: &'a Identity, what: &RequestAttributes<'_>) -> Option<&'a Binding> {
        let namespace = match *what {
            RequestAttributes::Resource { namespace, .. } => namespace,
            RequestAttributes::Path { .. } => "",
        };
        let mut asked = HashSet::new();
        self.bindings_of(who, namespace).enumerate().find_map(|(at, binding)| {
            let rules = self.rules(&binding.role, &binding.namespace)?;
            let is_asked_again = at >= BINDINGS_REMEMBERED_FROM && !asked.insert(rules.as_ptr());
            let mut each = rules.iter().flat_map(|part| &**part);
            (!is_asked_again && each.any(|rule| rule.allows(what))).then_some(binding)
        })
    }

    /// Returns the rules that apply to the user in the namespace, each role's rules once: a role that is bound a
    /// thousand times allows no more than one that is bound once.
    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> Vec<RuleSet> {
        let mut seen = HashSet::new();
        self.distinct_bindings(who, namespace)
            .into_values()
            .filter_map(|binding| self.rules(&binding.role, &binding.namespace))
            .filter(|rules| seen.insert(rules.as_ptr()))
            .cloned()
            .collect()
    }

    /// Returns the missing roles that the user's bindings name, as Kubernetes reports them.
    pub(super) fn missing_roles(&self, who: &Identity, namespace: &str) -> Vec<String> {
        self.bindings_of(who, namespace)
            .filter(|binding| self.rules(&binding.role, &binding.namespace).is_none())
            .map(|binding| ((&*binding.namespace, &*binding.name), binding))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .take(MISSING_ROLES_SHOWN_MAX)
            .map(|binding| {
                format!("{}.{GROUP} {:?} not found", binding.role.kind.to_lowercase(), binding.role.name)
            })
            .collect()
    }

    /// Returns the rules of a role, if it exists.
    pub(super) fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&RuleSet> {
        match &*role.kind {
            "ClusterRole" => self.cluster_roles.rules(&role.name),
            "Role" => self.roles.get(namespace)?.get(&*role.name).map(|role| &role.rules),
            _ => None,
        }
    }

    /// Returns how many comparisons a decision takes at most because of this Role, and because of all others in its
    /// namespace.
    pub(super) fn comparisons_in(&self, namespace: &str, role: &str) -> (usize, usize) {
        let roles = self.roles.get(namespace).into_iter().flatten();
        roles.fold(
            (0, 0),
            |(own, others), (name, Role { comparisons, .. })| {
                if &**name == role { (*comparisons, others) } else { (own, others + comparisons) }
            },
        )
    }

    /// Checks that a RoleBinding may be written without exceeding the limits of its namespace; returns why it may not.
    pub(super) fn check_room_for(
        &self,
        namespace: &str,
        name: &str,
        binding: StoredBinding,
    ) -> Result<(), String> {
        let new = Binding::new(namespace, name, binding);
        self.bindings.get(namespace).map_or(Ok(()), |bindings| bindings.check_room_for(&new))
    }

    fn bindings_of<'a>(&'a self, who: &'a Identity, namespace: &str) -> impl Iterator<Item = &'a Binding> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        std::iter::once(&self.cluster_bindings).chain(local).flat_map(|bindings| bindings.for_user(who))
    }

    fn distinct_bindings<'a>(
        &'a self,
        who: &'a Identity,
        namespace: &str,
    ) -> BTreeMap<(&'a str, &'a str), &'a Binding> {
        self.bindings_of(who, namespace)
            .map(|binding| ((&*binding.namespace, &*binding.name), binding))
            .collect()
    }
}

fn parse_object<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Writes the combined rules into each aggregated ClusterRole among the objects, for people to read.
pub(crate) fn fill_aggregated(objects: &mut [(Key, serde_json::Value)]) {
    let mut policy = RbacIndex::default();
    for (key, object) in &*objects {
        policy.apply(key, Some(object.to_string().as_bytes()));
    }
    policy.resolve();
    for (key, object) in objects.iter_mut().filter(|(_, object)| object.get("aggregationRule").is_some()) {
        if let Some(rules) = policy.cluster_roles.rules(key.name()) {
            object["rules"] = serde_json::json!(distinct_rules(rules));
        }
    }
}

/// Returns the rules of a set in order, without duplicates.
fn distinct_rules(rules: &RuleSet) -> Vec<&Rule> {
    let mut seen = HashSet::new();
    rules.iter().flat_map(|part| &**part).filter(|rule| seen.insert(*rule)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn put(policy: &mut RbacIndex, resource: &str, namespace: &str, name: &str, object: &Value) {
        let bytes = object.to_string();
        policy.apply(&Key::new(GROUP, resource, namespace, name), Some(bytes.as_bytes()));
        policy.resolve();
    }

    fn remove(policy: &mut RbacIndex, resource: &str, namespace: &str, name: &str) {
        policy.apply(&Key::new(GROUP, resource, namespace, name), None);
        policy.resolve();
    }

    fn user(name: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(ToString::to_string).collect();
        Identity { name: name.into(), groups, ..Identity::default() }
    }

    fn pods(namespace: &str) -> RequestAttributes<'_> {
        RequestAttributes::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "",
            namespace,
            name: "x",
        }
    }

    fn reader(labels: &Value) -> Value {
        json!({"metadata": {"labels": labels},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]})
    }

    fn bind(kind: &str, role: &str, subject: &Value) -> Value {
        json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}, "subjects": [subject]})
    }

    #[test]
    fn a_role_binding_grants_in_its_namespace_only() {
        let mut policy = RbacIndex::default();
        put(&mut policy, "roles", "a", "reader", &reader(&json!({})));
        let jane = json!({"kind": "User", "name": "jane"});
        put(&mut policy, "rolebindings", "a", "b", &bind("Role", "reader", &jane));
        let who = user("jane", &[]);
        assert_eq!(
            policy.decide(&who, &pods("a")),
            Decision::Allow(r#"RBAC: allowed by RoleBinding "b/a" of Role "reader" to User "jane""#.into())
        );
        for (who, namespace) in [(&who, "b"), (&who, ""), (&user("joe", &["jane"]), "a")] {
            assert_eq!(policy.decide(who, &pods(namespace)), Decision::NoOpinion, "{who:?} in {namespace:?}");
        }
        remove(&mut policy, "rolebindings", "a", "b");
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion);
        assert!(policy.bindings.is_empty());
    }

    #[test]
    fn service_accounts_take_the_namespace_of_the_binding_when_they_name_none() {
        let mut policy = RbacIndex::default();
        put(&mut policy, "clusterroles", "", "reader", &reader(&json!({})));
        let here = json!({"kind": "ServiceAccount", "name": "bot"});
        let there = json!({"kind": "ServiceAccount", "name": "bot", "namespace": "other"});
        put(&mut policy, "rolebindings", "a", "here", &bind("ClusterRole", "reader", &here));
        put(&mut policy, "rolebindings", "a", "there", &bind("ClusterRole", "reader", &there));
        put(&mut policy, "clusterrolebindings", "", "nowhere", &bind("ClusterRole", "reader", &here));
        let check = |name: &str, namespace: &str, expected: bool| {
            let decision = policy.decide(&user(name, &[]), &pods(namespace));
            assert_eq!(decision.is_allowed(), expected, "{name} in {namespace}");
        };
        check("system:serviceaccount:a:bot", "a", true);
        check("system:serviceaccount:other:bot", "a", true);
        check("system:serviceaccount:other:bot", "other", false);
        check("system:serviceaccount::bot", "a", false);
    }

    #[test]
    fn aggregated_roles_follow_those_they_select_through_each_other() {
        let mut policy = RbacIndex::default();
        let aggregated = |label: &str, labels: Value| {
            json!({"metadata": {"labels": labels},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
                "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]})
        };
        put(&mut policy, "clusterroles", "", "admin", &aggregated("to-admin", json!({"to-edit": "true"})));
        put(&mut policy, "clusterroles", "", "edit", &aggregated("to-edit", json!({"to-admin": "true"})));
        let group = json!({"kind": "Group", "name": "team"});
        put(&mut policy, "clusterrolebindings", "", "b", &bind("ClusterRole", "admin", &group));
        let who = user("jane", &["team"]);
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion, "stored rules do not count");
        put(&mut policy, "clusterroles", "", "extra", &reader(&json!({"to-edit": "true"})));
        assert!(policy.decide(&who, &pods("a")).is_allowed());
        assert_eq!(policy.rules_for(&who, "a").iter().flat_map(|set| &**set).count(), 1);
        remove(&mut policy, "clusterroles", "", "extra");
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion);
    }

    /// Custom resource definitions were once able to store objects among bindings.
    #[test]
    fn an_object_kept_elsewhere_grants_nothing() {
        let mut policy = RbacIndex::default();
        put(&mut policy, "clusterroles", "", "reader", &reader(&json!({})));
        let jane = json!({"kind": "User", "name": "jane"});
        let binding = bind("ClusterRole", "reader", &jane);
        put(&mut policy, "clusterrolebindings", "a", "namespaced", &binding);
        put(&mut policy, "rolebindings", "", "without a namespace", &binding);
        let bytes = binding.to_string();
        for storage in [
            ResourceIdentity::Custom(GROUP, "clusterrolebindings"),
            ResourceIdentity::Custom("demo.dev", "clusterrolebindings"),
            ResourceIdentity::BuiltIn("demo.dev", "clusterrolebindings"),
        ] {
            policy.apply(&storage.key("", "custom"), Some(bytes.as_bytes()));
        }
        for namespace in ["", "a"] {
            assert_eq!(policy.decide(&user("jane", &[]), &pods(namespace)), Decision::NoOpinion);
        }
        let rules = reader(&json!({}));
        put(&mut policy, "clusterroles", "a", "hidden", &rules);
        put(&mut policy, "roles", "", "hidden", &rules);
        put(&mut policy, "clusterrolebindings", "", "b", &bind("ClusterRole", "hidden", &jane));
        assert_eq!(policy.decide(&user("jane", &[]), &pods("a")), Decision::NoOpinion);
    }

    #[test]
    fn a_role_bound_many_times_is_listed_once() {
        let mut policy = RbacIndex::default();
        put(&mut policy, "clusterroles", "", "reader", &reader(&json!({})));
        let jane = json!({"kind": "User", "name": "jane"});
        let many =
            json!({"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": vec![jane; 1000]});
        for name in 0..100 {
            put(&mut policy, "clusterrolebindings", "", &name.to_string(), &many);
            put(&mut policy, "rolebindings", "a", &name.to_string(), &many);
        }
        assert_eq!(policy.rules_for(&user("jane", &[]), "a").len(), 1);
        for name in 0..100 {
            remove(&mut policy, "clusterrolebindings", "", &name.to_string());
        }
        assert_eq!(policy.decide(&user("jane", &[]), &pods("b")), Decision::NoOpinion);
    }

    #[test]
    fn a_binding_to_a_missing_role_grants_nothing_and_is_reported() {
        let mut policy = RbacIndex::default();
        let jane = json!({"kind": "User", "name": "jane"});
        put(&mut policy, "clusterrolebindings", "", "b", &bind("ClusterRole", "gone", &jane));
        put(&mut policy, "clusterrolebindings", "", "odd", &json!({"roleRef": 7}));
        let who = user("jane", &[]);
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion);
        let expected = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(policy.missing_roles(&who, "a"), [expected]);
    }
}
