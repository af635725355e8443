//! Draws random policies, users and requests. Half of the policies are aimed: they are made for the request that
//! follows, and then altered slightly, because purely random requests are nearly always refused.

use std::collections::BTreeMap;

use homeostat_core::Entropy;
use serde_json::{Value, json};

use super::GROUP;
use super::specification::{Action, Request, User, action_of};

pub(super) const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
const NAMES: [&str; 4] = ["one", "two", "jane", "*"];
const USERS: [&str; 6] = [
    "jane",
    "joe",
    "system:anonymous",
    "system:serviceaccount:team-a:bot",
    "system:node:n1",
    "system:serviceaccount:a:b:c",
];
const GROUPS: [&str; 6] = [
    "devs",
    "ops",
    "system:authenticated",
    "system:unauthenticated",
    "system:serviceaccounts:team-a",
    "system:nodes",
];
const API_GROUPS: [&str; 6] = ["", "apps", "demo.dev", GROUP, "authentication.k8s.io", "*"];
const VERBS: [&str; 14] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "*",
    "",
    "impersonate:user-info",
    "impersonate-on:user-info:get",
    "impersonate-on:arbitrary-node:list",
];
const RESOURCES: [&str; 18] = [
    "pods",
    "pods/log",
    "configmaps",
    "nodes",
    "namespaces",
    "deployments/scale",
    "lamps",
    "lamps/status",
    "clusterroles",
    "*",
    "*/status",
    "*/scale",
    "users",
    "groups",
    "serviceaccounts",
    "uids",
    "userextras/acme.com/scope",
    "things",
];
const URLS: [&str; 8] =
    ["/healthz", "/metrics", "/nothing", "/nothing/*", "/nothing/at/all", "*", "/api*", "/ver*"];
const PATHS: [&str; 9] = [
    "/healthz",
    "/metrics",
    "/nothing",
    "/nothing/at/all",
    "/version",
    "/api",
    "/apis",
    "/apis/apps/v1",
    "/",
];
const METHODS: [&str; 9] = ["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// A kind that requests can refer to.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// `/api/v1`, `/apis/apps/v1`
    pub(super) root: String,
    pub(super) plural: String,
    pub(super) subresource: String,
    pub(super) is_namespaced: bool,
}

/// A change to the policy: resource, namespace, name, and the object or `None`.
pub(super) type Change = (&'static str, String, String, Option<Value>);

/// The source of random choices.
pub(super) struct Draw {
    pub(super) entropy: Entropy,
    pub(super) kinds: Vec<Kind>,
}

impl Draw {
    pub(super) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.entropy.below(bound as u64)).unwrap()
    }

    fn one<'a>(&self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Returns true once in `times`.
    pub(super) fn once_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn some(&self, of: &[&str], least: usize, most: usize) -> Vec<String> {
        (0..least + self.below(most - least + 1)).map(|_| self.one(of).to_owned()).collect()
    }

    fn rule(&self) -> Value {
        if self.once_in(5) {
            return json!({"verbs": self.some(&["get", "post", "*", "head", "impersonate-on:user-info:get"], 1, 2),
                "nonResourceURLs": self.some(&URLS, 1, 2)});
        }
        let names = if self.once_in(3) { self.some(&NAMES, 1, 2) } else { Vec::new() };
        json!({"verbs": self.some(&VERBS, 1, 4), "apiGroups": self.some(&API_GROUPS, 1, 2),
            "resources": self.some(&RESOURCES, 1, 4), "resourceNames": names})
    }

    fn subject(&self) -> Value {
        match self.below(5) {
            0 | 1 => json!({"kind": "User", "name": self.one(&USERS)}),
            2 | 3 => json!({"kind": "Group", "name": self.one(&GROUPS)}),
            _ if self.once_in(2) => json!({"kind": "ServiceAccount", "name": "bot"}),
            _ => json!({"kind": "ServiceAccount", "name": "bot", "namespace": self.one(&NAMESPACES)}),
        }
    }

    fn selector(&self) -> Value {
        match self.below(4) {
            0 => json!({"matchLabels": {"part": self.one(&["x", "y"])}}),
            1 => {
                json!({"matchExpressions": [{"key": "part", "operator": self.one(&["In", "NotIn"]), "values": ["x"]}]})
            }
            2 => {
                json!({"matchExpressions": [{"key": "sum", "operator": self.one(&["Exists", "DoesNotExist"])}]})
            }
            _ => {
                json!({"matchLabels": {"part": "x"}, "matchExpressions": [{"key": "sum", "operator": "Exists"}]})
            }
        }
    }

    /// Draws a role, a binding, or the deletion of one.
    pub(super) fn change(&self) -> Change {
        let resource = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"][self.below(4)];
        let namespace = if resource.starts_with("cluster") { "" } else { self.one(&NAMESPACES) };
        let name = self.one(&["r0", "r1", "r2", "r3"]);
        if self.once_in(4) {
            return (resource, namespace.to_owned(), name.to_owned(), None);
        }
        if resource.ends_with("bindings") {
            let kind = if namespace.is_empty() { "ClusterRole" } else { self.one(&["ClusterRole", "Role"]) };
            let role = self.one(&["r0", "r1", "r2", "r3", "view", "aimed"]);
            let subjects = (0..self.below(3)).map(|_| self.subject()).collect::<Vec<_>>();
            return change(resource, namespace, name, binding(kind, role, &subjects));
        }
        let rules = (0..self.below(4)).map(|_| self.rule()).collect::<Vec<_>>();
        let mut role = json!({"rules": rules});
        if resource == "clusterroles" {
            let labels = ["part", "sum"].map(|key| (key.to_owned(), self.one(&["x", "y"])));
            let labels = labels.into_iter().filter(|_| self.once_in(2)).collect::<BTreeMap<_, _>>();
            role["metadata"]["labels"] = json!(labels);
            if self.once_in(3) {
                role["aggregationRule"] = json!({"clusterRoleSelectors": [self.selector()]});
            }
        }
        change(resource, namespace, name, role)
    }

    /// Removes the policies that were aimed at an earlier request.
    pub(super) fn unaimed() -> Vec<Change> {
        let mut gone = vec![("clusterrolebindings", String::new())];
        gone.extend(NAMESPACES.map(|namespace| ("rolebindings", namespace.to_owned())));
        gone.into_iter()
            .map(|(resource, namespace)| (resource, namespace, "aimed".to_owned(), None))
            .collect()
    }

    /// Draws a role that barely allows the request, or nearly does, and a binding to it: in the cluster, in its
    /// namespace or in another.
    pub(super) fn aimed(&self, user: &User, request: &Request) -> Vec<Change> {
        let action = action_of(request);
        let mut rules = vec![self.near(&action)];
        let mut subjects = vec![json!({"kind": "User", "name": user.name})];
        if let Some(wanted) = request.header("Impersonate-User") {
            rules.extend(self.impersonation(&action, request, wanted));
            subjects.push(json!({"kind": "User", "name": wanted}));
        }
        if let (true, Some(group)) = (self.once_in(4), user.groups.first()) {
            subjects[0] = json!({"kind": "Group", "name": group});
        }
        if self.once_in(12) {
            subjects[0] = self.subject();
        }
        let namespace = match self.below(6) {
            0..3 => String::new(),
            3..5 => action.namespace,
            _ => self.one(&NAMESPACES).to_owned(),
        };
        let role = json!({"rules": rules});
        if namespace.is_empty() {
            let bound = binding("ClusterRole", "aimed", &subjects);
            return vec![
                change("clusterroles", "", "aimed", role),
                change("clusterrolebindings", "", "aimed", bound),
            ];
        }
        let (kind, resource, place) = match self.below(2) {
            0 => ("ClusterRole", "clusterroles", ""),
            _ => ("Role", "roles", &*namespace),
        };
        let bound = binding(kind, "aimed", &subjects);
        vec![change(resource, place, "aimed", role), change("rolebindings", &namespace, "aimed", bound)]
    }

    /// Returns the entry itself, often a wildcard, rarely something else.
    fn about<'a>(&self, entry: &'a str, others: &[&'a str]) -> &'a str {
        match self.below(24) {
            0..4 => "*",
            4 => self.one(others),
            _ => entry,
        }
    }

    /// Draws a rule that barely allows this, or nearly does.
    fn near(&self, action: &Action) -> Value {
        if !action.is_resource {
            let cut = action.path.get(..action.path.len() / 2).unwrap_or_default();
            let path = match self.below(5) {
                0 => format!("{cut}*"),
                1 => format!("{}*", action.path),
                2 => format!("{}/", action.path),
                _ => self.about(&action.path, &URLS).to_owned(),
            };
            return json!({"verbs": [self.about(&action.verb, &["get", "post", "put"])], "nonResourceURLs": [path]});
        }
        let full = match (&*action.subresource, self.below(6)) {
            ("", 0) => format!("{}/status", action.resource),
            ("", _) | (_, 0) => action.resource.clone(),
            (subresource, 1) => format!("*/{subresource}"),
            (subresource, _) => format!("{}/{subresource}", action.resource),
        };
        let names = match self.below(4) {
            0 => vec![self.about(&action.name, &NAMES)],
            1 => vec!["two", self.about(&action.name, &NAMES)],
            _ => Vec::new(),
        };
        json!({"verbs": [self.about(&action.verb, &VERBS)], "apiGroups": [self.about(&action.group, &API_GROUPS)],
            "resources": [self.about(&full, &RESOURCES)], "resourceNames": names})
    }

    /// Draws rules that barely allow this request, or nearly do, to act as `wanted`.
    fn impersonation(&self, action: &Action, request: &Request, wanted: &str) -> Vec<Value> {
        let mode = match (wanted.split(':').collect::<Vec<_>>().as_slice(), self.once_in(2)) {
            (_, true) => "",
            (["system", "node", _], _) => self.one(&["arbitrary-node", "associated-node"]),
            (["system", "serviceaccount", _, _], _) => "serviceaccount",
            _ => "user-info",
        };
        let (verb, group) = match mode {
            "" => ("impersonate".to_owned(), ""),
            mode => (format!("impersonate:{mode}"), "authentication.k8s.io"),
        };
        let part = |group: &str, resource: &str, name: &str| Action {
            is_resource: true,
            verb: verb.clone(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Action::default()
        };
        let user = match (wanted.split(':').collect::<Vec<_>>().as_slice(), mode) {
            (["system", "node", name], "arbitrary-node") => part(group, "nodes", name),
            (["system", "node", _], "associated-node") => part(group, "nodes", "*"),
            (["system", "serviceaccount", _, name], _) => part(group, "serviceaccounts", name),
            _ => part(group, "users", wanted),
        };
        let mut parts = vec![user];
        let groups = request.headers.iter().filter(|(name, _)| name == "Impersonate-Group");
        parts.extend(groups.map(|(_, name)| part(group, "groups", name)));
        parts.push(part("authentication.k8s.io", "uids", "one"));
        for key in ["acme.com/scope", "scope"] {
            let named = part("authentication.k8s.io", "userextras", "one");
            parts.push(Action { subresource: key.to_owned(), ..named });
        }
        if !mode.is_empty() {
            parts.push(Action { verb: format!("impersonate-on:{mode}:{}", action.verb), ..action.clone() });
        }
        parts.iter().map(|part| self.near(part)).collect()
    }

    pub(super) fn user(&self) -> User {
        let name = self.one(&USERS).to_owned();
        let mut groups = self.some(&GROUPS, 0, 2);
        if self.once_in(60) {
            groups.push("system:masters".to_owned());
        }
        let mut extra = BTreeMap::new();
        if self.once_in(3) {
            extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["n1".to_owned()]);
        }
        User { name, uid: String::new(), groups, extra }
    }

    pub(super) fn request(&self) -> Request {
        let mut request = if self.once_in(12) {
            let method = self.one(&["GET", "GET", "POST", "HEAD"]).to_owned();
            Request { method, path: self.one(&PATHS).to_owned(), ..Request::default() }
        } else {
            self.resource_request()
        };
        if self.once_in(3) {
            request.headers = self.headers();
        }
        request
    }

    fn resource_request(&self) -> Request {
        let Kind { root, plural, subresource, is_namespaced } = &self.kinds[self.below(self.kinds.len())];
        let mut path = vec![root.as_str()];
        if self.once_in(20) {
            path.push("watch");
        }
        if *is_namespaced && !self.once_in(6) {
            path.extend(["namespaces", self.one(&NAMESPACES)]);
        }
        path.push(plural);
        let has_name = !subresource.is_empty() || self.once_in(2);
        if has_name {
            path.push(self.one(if plural == "namespaces" { &NAMESPACES[..] } else { &NAMES[..3] }));
        }
        if !subresource.is_empty() {
            path.push(subresource);
        }
        if self.once_in(20) {
            path.push("");
        }
        let path = path.join("/");
        let method = self.one(&METHODS).to_owned();
        let mut query = Vec::new();
        // Allowed requests must not change anything.
        if method == "DELETE" {
            query.push(("dryRun", "All"));
        }
        if !has_name && self.once_in(3) {
            query.push(("watch", self.one(&["1", "true", "false", "0"])));
        }
        if !has_name && self.once_in(3) {
            let selectors = ["metadata.name=one", "metadata.name==two", "metadata.namespace=one"];
            query.push(("fieldSelector", self.one(&selectors)));
        }
        let query = query.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Request { method, path, query, ..Request::default() }
    }

    fn headers(&self) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        if !self.once_in(20) {
            add("Impersonate-User", self.one(&USERS));
        }
        let groups = match self.below(8) {
            0 => 4,
            1 | 2 => 1,
            _ => 0,
        };
        for _ in 0..groups {
            add("Impersonate-Group", if self.once_in(8) { "system:masters" } else { self.one(&GROUPS) });
        }
        if self.once_in(8) {
            add("Impersonate-Uid", "one");
        }
        if self.once_in(8) {
            let keys = ["Impersonate-Extra-acme.com%2Fscope", "Impersonate-Extra-scope"];
            add(self.one(&keys), self.one(&NAMES[..2]));
        }
        headers
    }
}

fn change(resource: &'static str, namespace: &str, name: &str, mut object: Value) -> Change {
    object["metadata"]["name"] = name.into();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    (resource, namespace.to_owned(), name.to_owned(), Some(object))
}

fn binding(kind: &str, role: &str, subjects: &[Value]) -> Value {
    json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}, "subjects": subjects})
}
