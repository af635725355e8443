//! Every role and binding, compiled and indexed by subject, so that a decision touches only the caller's bindings.
//!
//! **Invariant:** a pure fold over the stored objects: [`Policy::apply`] of each change in any order gives the same
//! policy as reading everything afresh. Aggregated ClusterRoles are resolved here, so their stored `rules` are only
//! for people to read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::selector::LabelSelector;
use serde::Deserialize;

use super::rule::Rule;
use super::{Attributes, Decision, Identity};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Its resources, in the order a fresh reader should take them.
pub(super) const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
/// What the user names of service accounts start with.
pub(super) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Rules, roles and bindings as decisions need them.
#[derive(Debug, Default)]
pub(super) struct Policy {
    cluster_roles: BTreeMap<Box<str>, ClusterRole>,
    /// By namespace.
    roles: HashMap<Box<str>, Roles>,
    cluster_bindings: Bindings,
    bindings: HashMap<Box<str>, Bindings>,
}

/// The rules of a namespace's roles, by name.
type Roles = HashMap<Box<str>, Arc<[Rule]>>;

#[derive(Debug)]
struct ClusterRole {
    labels: BTreeMap<String, String>,
    selectors: Vec<LabelSelector>,
    own: Arc<[Rule]>,
    effective: Arc<[Rule]>,
}

#[derive(Debug, Default)]
struct Bindings {
    named: BTreeMap<Box<str>, Arc<Binding>>,
    of_users: HashMap<Box<str>, Vec<Arc<Binding>>>,
    of_groups: HashMap<Box<str>, Vec<Arc<Binding>>>,
}

/// A binding: who gets which role.
#[derive(Debug)]
pub(super) struct Binding {
    namespace: Box<str>,
    name: Box<str>,
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// Which role a binding grants.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoleRef {
    pub(super) api_group: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredRole {
    metadata: StoredMetadata,
    rules: Option<Vec<Rule>>,
    aggregation_rule: Option<Aggregation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredMetadata {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Aggregation {
    cluster_role_selectors: Option<Vec<serde_json::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredBinding {
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

impl Policy {
    /// Takes one change in: the object's new bytes, or `None` when it is gone. Answers whether aggregated roles must
    /// be [resolved](Self::resolve) again. An object that does not read grants nothing.
    pub(super) fn apply(&mut self, key: &Key, bytes: Option<&[u8]>) -> bool {
        let (namespace, name) = (key.namespace(), key.name());
        match key.resource() {
            "clusterroles" => {
                match bytes.and_then(read::<StoredRole>) {
                    Some(role) => drop(self.cluster_roles.insert(name.into(), ClusterRole::new(role))),
                    None => drop(self.cluster_roles.remove(name)),
                }
                return true;
            }
            "roles" => self.apply_role(namespace, name, bytes.and_then(read)),
            "clusterrolebindings" => {
                self.cluster_bindings.replace(name, bytes.and_then(read).map(|one| binding("", name, one)));
            }
            "rolebindings" => {
                let new = bytes.and_then(read).map(|one| binding(namespace, name, one));
                let bindings = self.bindings.entry(namespace.into()).or_default();
                bindings.replace(name, new);
                if bindings.named.is_empty() {
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
            Some(role) => drop(roles.insert(name.into(), role.rules.unwrap_or_default().into())),
            None => drop(roles.remove(name)),
        }
        if roles.is_empty() {
            self.roles.remove(namespace);
        }
    }

    /// Gives every aggregated ClusterRole the rules of those it selects, directly or through other aggregated ones.
    pub(super) fn resolve(&mut self) {
        let aggregated = self
            .cluster_roles
            .iter()
            .filter(|(_, role)| !role.selectors.is_empty())
            .map(|(name, _)| (name.clone(), self.gather(name)))
            .collect::<Vec<_>>();
        for (name, rules) in aggregated {
            self.cluster_roles.get_mut(&name).expect("just listed").effective = rules;
        }
    }

    fn gather(&self, name: &str) -> Arc<[Rule]> {
        let mut seen = BTreeSet::from([name]);
        let mut open = vec![name];
        let mut rules = Vec::<Rule>::new();
        while let Some(role) = open.pop().and_then(|name| self.cluster_roles.get(name)) {
            if role.selectors.is_empty() {
                rules.extend(
                    role.own.iter().filter(|rule| !rules.contains(rule)).cloned().collect::<Vec<_>>(),
                );
            }
            for (name, _) in self.cluster_roles.iter().filter(|(_, other)| role.selects(other)) {
                if seen.insert(name) {
                    open.push(name);
                }
            }
        }
        rules.into()
    }

    /// May they? Says which binding grants it.
    pub(super) fn decide(&self, who: &Identity, what: &Attributes<'_>) -> Decision {
        let namespace = match *what {
            Attributes::Resource { namespace, .. } => namespace,
            Attributes::Path { .. } => "",
        };
        self.bindings_of(who, namespace)
            .find(|binding| {
                self.rules(&binding.role, &binding.namespace)
                    .is_some_and(|rules| rules.iter().any(|rule| rule.allows(what)))
            })
            .map_or(Decision::NoOpinion, |binding| {
                Decision::Allow(format!("RBAC: allowed by {}", binding.shown(who)))
            })
    }

    /// Every rule that applies to the user in the namespace, each binding's once.
    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> Vec<&Rule> {
        self.distinct_bindings(who, namespace)
            .into_values()
            .filter_map(|binding| self.rules(&binding.role, &binding.namespace))
            .flatten()
            .collect()
    }

    /// The roles the user's bindings name that do not exist, as Kubernetes reports them.
    pub(super) fn missing_roles(&self, who: &Identity, namespace: &str) -> Vec<String> {
        self.distinct_bindings(who, namespace)
            .into_values()
            .filter(|binding| self.rules(&binding.role, &binding.namespace).is_none())
            .map(|binding| {
                format!("{}.{GROUP} {:?} not found", binding.role.kind.to_lowercase(), binding.role.name)
            })
            .collect()
    }

    /// The rules of a role, if it exists.
    pub(super) fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        match &*role.kind {
            "ClusterRole" => self.cluster_roles.get(&*role.name).map(|role| &*role.effective),
            "Role" => self.roles.get(namespace)?.get(&*role.name).map(|rules| &**rules),
            _ => None,
        }
    }

    fn bindings_of<'a>(&'a self, who: &'a Identity, namespace: &str) -> impl Iterator<Item = &'a Binding> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        std::iter::once(&self.cluster_bindings).chain(local).flat_map(|bindings| bindings.of(who))
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

impl ClusterRole {
    fn new(stored: StoredRole) -> Self {
        let selectors =
            stored.aggregation_rule.and_then(|rule| rule.cluster_role_selectors).unwrap_or_default();
        // One that does not read selects nothing; the role stays an aggregated one.
        let selectors = selectors
            .iter()
            .map(|one| LabelSelector::from_json(one).unwrap_or_else(|_| LabelSelector::nothing()))
            .collect();
        let own = Arc::<[Rule]>::from(stored.rules.unwrap_or_default());
        Self { labels: stored.metadata.labels.unwrap_or_default(), selectors, effective: own.clone(), own }
    }

    fn selects(&self, other: &Self) -> bool {
        let label = |key: &str| other.labels.get(key).map(|value| &**value);
        self.selectors.iter().any(|selector| selector.matches(label))
    }
}

impl Bindings {
    fn replace(&mut self, name: &str, new: Option<Binding>) {
        if let Some(old) = self.named.remove(name) {
            self.unindex(&old);
        }
        let Some(new) = new.map(Arc::new) else { return };
        for subject in &new.subjects {
            let list = match subject.index(&new.namespace) {
                Some(Index::User(user)) => self.of_users.entry(user).or_default(),
                Some(Index::Group(group)) => self.of_groups.entry(group).or_default(),
                None => continue,
            };
            let at = list.partition_point(|one| one.name < new.name);
            if list.get(at).is_none_or(|one| one.name != new.name) {
                list.insert(at, new.clone());
            }
        }
        self.named.insert(name.into(), new);
    }

    fn unindex(&mut self, old: &Binding) {
        for subject in &old.subjects {
            match subject.index(&old.namespace) {
                Some(Index::User(user)) => forget(&mut self.of_users, &user, &old.name),
                Some(Index::Group(group)) => forget(&mut self.of_groups, &group, &old.name),
                None => {}
            }
        }
    }

    fn of<'a>(&'a self, who: &'a Identity) -> impl Iterator<Item = &'a Binding> {
        let by_group = who.groups.iter().filter_map(|group| self.of_groups.get(&**group));
        self.of_users.get(&*who.name).into_iter().chain(by_group).flatten().map(|binding| &**binding)
    }
}

fn forget(index: &mut HashMap<Box<str>, Vec<Arc<Binding>>>, subject: &str, binding: &str) {
    if let Some(list) = index.get_mut(subject) {
        list.retain(|one| &*one.name != binding);
        if list.is_empty() {
            index.remove(subject);
        }
    }
}

enum Index {
    User(Box<str>),
    Group(Box<str>),
}

impl Subject {
    fn index(&self, binding_namespace: &str) -> Option<Index> {
        match &*self.kind {
            "User" => Some(Index::User(self.name.clone())),
            "Group" => Some(Index::Group(self.name.clone())),
            "ServiceAccount" => {
                let namespace = self.account_namespace(binding_namespace);
                (!namespace.is_empty())
                    .then(|| Index::User(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", self.name).into()))
            }
            _ => None,
        }
    }

    fn account_namespace<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    fn applies_to(&self, who: &Identity, binding_namespace: &str) -> bool {
        match self.index(binding_namespace) {
            Some(Index::User(user)) => *user == *who.name,
            Some(Index::Group(group)) => who.is_in(&group),
            None => false,
        }
    }

    fn shown(&self, binding_namespace: &str) -> String {
        if &*self.kind == "ServiceAccount" {
            let account = format!("{}/{}", self.name, self.account_namespace(binding_namespace));
            format!("{} {account:?}", self.kind)
        } else {
            format!("{} {:?}", self.kind, self.name)
        }
    }
}

impl Binding {
    /// `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
    fn shown(&self, who: &Identity) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let subject = self.subjects.iter().find(|subject| subject.applies_to(who, &self.namespace));
        let subject = subject.map(|subject| subject.shown(&self.namespace)).unwrap_or_default();
        format!("{kind} {name:?} of {} {:?} to {subject}", self.role.kind, self.role.name)
    }
}

fn binding(namespace: &str, name: &str, stored: StoredBinding) -> Binding {
    let subjects = stored.subjects.unwrap_or_default();
    Binding { namespace: namespace.into(), name: name.into(), role: stored.role_ref, subjects }
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Writes into each aggregated ClusterRole among the objects the rules it sums up, for people to read.
pub(crate) fn fill_aggregated(objects: &mut [(Key, serde_json::Value)]) {
    let mut policy = Policy::default();
    for (key, object) in &*objects {
        policy.apply(key, Some(object.to_string().as_bytes()));
    }
    policy.resolve();
    for (key, object) in objects.iter_mut().filter(|(_, object)| object.get("aggregationRule").is_some()) {
        if let Some(role) = policy.cluster_roles.get(key.name()) {
            object["rules"] = serde_json::json!(&*role.effective);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn put(policy: &mut Policy, resource: &str, namespace: &str, name: &str, object: &Value) {
        let bytes = object.to_string();
        policy.apply(&Key::new(GROUP, resource, namespace, name), Some(bytes.as_bytes()));
        policy.resolve();
    }

    fn remove(policy: &mut Policy, resource: &str, namespace: &str, name: &str) {
        policy.apply(&Key::new(GROUP, resource, namespace, name), None);
        policy.resolve();
    }

    fn user(name: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(ToString::to_string).collect();
        Identity { name: name.into(), groups, ..Identity::default() }
    }

    fn pods(namespace: &str) -> Attributes<'_> {
        Attributes::Resource {
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
        let mut policy = Policy::default();
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
        let mut policy = Policy::default();
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
        let mut policy = Policy::default();
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
        assert_eq!(policy.rules_for(&who, "a").len(), 1);
        remove(&mut policy, "clusterroles", "", "extra");
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion);
    }

    #[test]
    fn a_binding_to_a_missing_role_grants_nothing_and_is_reported() {
        let mut policy = Policy::default();
        let jane = json!({"kind": "User", "name": "jane"});
        put(&mut policy, "clusterrolebindings", "", "b", &bind("ClusterRole", "gone", &jane));
        put(&mut policy, "clusterrolebindings", "", "odd", &json!({"roleRef": 7}));
        let who = user("jane", &[]);
        assert_eq!(policy.decide(&who, &pods("a")), Decision::NoOpinion);
        let expected = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(policy.missing_roles(&who, "a"), [expected]);
    }
}
