//! A second implementation of authorization, written from Kubernetes' documentation (authorization attributes, RBAC,
//! impersonation) in the plainest way, on the stored objects as they are. It shares no code with the server and keeps
//! no state between two decisions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The user of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

/// A request as it is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// Decoded names and values.
    pub(super) query: Vec<(String, String)>,
    /// `Impersonate-*` headers.
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// Objects by namespace and name.
pub(super) type Stored = BTreeMap<(String, String), Value>;

/// Roles and bindings.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) cluster_roles: Stored,
    pub(super) roles: Stored,
    pub(super) cluster_role_bindings: Stored,
    pub(super) role_bindings: Stored,
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// 403, with a message that begins like this.
    Refused(String),
    /// 400: the headers are invalid.
    Nonsense,
}

/// The action that a request asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Action {
    pub(super) is_resource: bool,
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) path: String,
}

/// Decides whether this user may send this request.
pub(super) fn judge(objects: &Objects, user: &User, request: &Request) -> Verdict {
    let action = action_of(request);
    let user = match acting_user(objects, user, request, &action) {
        Ok(user) => user,
        Err(verdict) => return verdict,
    };
    if !may(objects, &user, &action) {
        return Verdict::Refused(refusal(&user, &action));
    }
    match opened_connection(request, action) {
        Some(opened) if !may(objects, &user, &opened) => Verdict::Refused(refusal(&user, &opened)),
        _ => Verdict::Allowed,
    }
}

/// Returns the additional requirement of a GET that opens a connection to a container: since 1.36, the permission to
/// create it.
fn opened_connection(request: &Request, action: Action) -> Option<Action> {
    let is_in_namespace = !action.namespace.is_empty(); // without one, no such path is served
    let is_pod =
        is_in_namespace && action.group.is_empty() && action.resource == "pods" && action.verb == "get";
    let is_connection = matches!(action.subresource.as_str(), "exec" | "attach" | "portforward");
    (is_pod && is_connection && request.method == "GET")
        .then(|| Action { verb: "create".to_owned(), ..action })
}

// Attributes of a request: https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb

pub(super) fn action_of(request: &Request) -> Action {
    let parts = request.path.trim_matches('/').split('/').map(ToOwned::to_owned).collect::<Vec<_>>();
    let (group, rest) = match parts.first().map(String::as_str) {
        Some("api") if parts.len() > 2 => ("", &parts[2..]),
        Some("apis") if parts.len() > 3 => (parts[1].as_str(), &parts[3..]),
        _ => {
            let verb = request.method.to_lowercase();
            return Action { verb, path: request.path.clone(), ..Action::default() };
        }
    };
    let mut action = Action { is_resource: true, group: group.to_owned(), ..Action::default() };
    let mut rest = rest.to_vec();
    let is_watch = rest[0] == "watch" && rest.len() > 1;
    if is_watch {
        rest.remove(0);
    }
    if rest[0] == "namespaces" && rest.len() > 1 {
        action.namespace.clone_from(&rest[1]);
        if rest.len() > 2 && rest[2] != "status" && rest[2] != "finalize" {
            rest.drain(..2);
        }
    }
    let part = |at: usize| rest.get(at).cloned().unwrap_or_default();
    (action.resource, action.name, action.subresource) = (part(0), part(1), part(2));
    let has_name = !action.name.is_empty();
    let asked =
        |name: &str| request.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let wants_watch = asked("watch").is_some_and(|value| value != "0" && value != "false");
    let verb = match request.method.as_str() {
        _ if is_watch => "watch",
        "GET" | "HEAD" if has_name => "get",
        "GET" | "HEAD" if wants_watch => "watch",
        "GET" | "HEAD" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if has_name => "delete",
        "DELETE" => "deletecollection",
        _ => "",
    };
    action.verb.push_str(verb);
    let is_collection = matches!(action.verb.as_str(), "list" | "watch") && !has_name && !is_watch;
    if let (true, Some(selector)) = (is_collection, asked("fieldSelector")) {
        let named = selector.split(',').filter_map(|term| term.strip_prefix("metadata.name="));
        action.name = named.map(|name| name.trim_start_matches('=').to_owned()).next().unwrap_or_default();
    }
    action
}

fn refusal(user: &User, action: &Action) -> String {
    let (name, verb) = (&user.name, &action.verb);
    if !action.is_resource {
        return format!("forbidden: User {name:?} cannot {verb} path {:?}", action.path);
    }
    let qualified = if action.group.is_empty() {
        action.resource.clone()
    } else {
        format!("{}.{}", action.resource, action.group)
    };
    let object = if action.name.is_empty() { String::new() } else { format!(" {:?}", action.name) };
    let resource = match action.subresource.as_str() {
        "" => action.resource.clone(),
        subresource => format!("{}/{subresource}", action.resource),
    };
    let place = match action.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let group = &action.group;
    format!(
        "{qualified}{object} is forbidden: User {name:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
    )
}

// RBAC: https://kubernetes.io/docs/reference/access-authn-authz/rbac/

fn may(objects: &Objects, user: &User, action: &Action) -> bool {
    if user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    let cluster_wide = objects.cluster_role_bindings.values().any(|binding| {
        names(binding, user, "")
            && rules_of(objects, &binding["roleRef"], "").iter().any(|rule| allows(rule, action))
    });
    cluster_wide
        || objects.role_bindings.values().any(|binding| {
            let namespace = text(&binding["metadata"], "namespace");
            action.is_resource
                && !namespace.is_empty()
                && namespace == action.namespace
                && names(binding, user, namespace)
                && rules_of(objects, &binding["roleRef"], namespace).iter().any(|rule| allows(rule, action))
        })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn names(binding: &Value, user: &User, namespace: &str) -> bool {
    binding["subjects"].as_array().into_iter().flatten().any(|subject| match text(subject, "kind") {
        "User" => user.name == text(subject, "name"),
        "Group" => user.groups.iter().any(|group| group == text(subject, "name")),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let of = if own.is_empty() { namespace } else { own };
            !of.is_empty() && user.name == format!("system:serviceaccount:{of}:{}", text(subject, "name"))
        }
        _ => false,
    })
}

fn rules_of(objects: &Objects, role: &Value, namespace: &str) -> Vec<Value> {
    match text(role, "kind") {
        "ClusterRole" => cluster_rules(objects, text(role, "name"), &mut BTreeSet::new()),
        "Role" => {
            let is_meant = |one: &&Value| {
                text(&one["metadata"], "name") == text(role, "name")
                    && text(&one["metadata"], "namespace") == namespace
                    && !namespace.is_empty()
            };
            objects.roles.values().find(is_meant).map(own_rules).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn own_rules(role: &Value) -> Vec<Value> {
    role["rules"].as_array().cloned().unwrap_or_default()
}

/// Returns the rules of a role: an aggregated role has the rules of all roles that it selects, and none of its own.
fn cluster_rules(objects: &Objects, name: &str, seen: &mut BTreeSet<String>) -> Vec<Value> {
    let Some(role) = objects.cluster_roles.values().find(|one| text(&one["metadata"], "name") == name) else {
        return Vec::new();
    };
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default();
    if selectors.is_empty() {
        return own_rules(role);
    }
    if !seen.insert(name.to_owned()) {
        return Vec::new();
    }
    let selected = objects
        .cluster_roles
        .values()
        .filter(|one| selectors.iter().any(|selector| selects(selector, &one["metadata"]["labels"])));
    selected.flat_map(|one| cluster_rules(objects, text(&one["metadata"], "name"), seen)).collect()
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let all_equal = equal.into_iter().all(|(key, value)| labels.get(key) == Some(value));
    all_equal
        && selector["matchExpressions"].as_array().into_iter().flatten().all(|term| {
            let label = labels.get(text(term, "key")).and_then(Value::as_str);
            let values = list(&term["values"]);
            match text(term, "operator") {
                "In" => label.is_some_and(|label| values.contains(&label)),
                "NotIn" => label.is_none_or(|label| !values.contains(&label)),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

fn allows(rule: &Value, action: &Action) -> bool {
    let has = |field: &str, wanted: &str| list(&rule[field]).iter().any(|one| *one == "*" || *one == wanted);
    if !has("verbs", &action.verb) {
        return false;
    }
    if !action.is_resource {
        return list(&rule["nonResourceURLs"]).iter().any(|url| {
            *url == action.path || url.ends_with('*') && action.path.starts_with(url.trim_end_matches('*'))
        });
    }
    let full = match action.subresource.as_str() {
        "" => action.resource.clone(),
        subresource => format!("{}/{subresource}", action.resource),
    };
    let of_every = (!action.subresource.is_empty()).then(|| format!("*/{}", action.subresource));
    let resources = list(&rule["resources"]);
    let has_resource =
        resources.iter().any(|one| *one == "*" || *one == full || of_every.as_deref() == Some(*one));
    let objects = list(&rule["resourceNames"]);
    has_resource
        && has("apiGroups", &action.group)
        && (objects.is_empty() || objects.contains(&action.name.as_str()))
}

// Impersonation: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/

/// The modes of impersonation; the name of the plain one is empty.
const MODES: [&str; 5] = ["associated-node", "arbitrary-node", "serviceaccount", "user-info", ""];

/// Returns the user that the request acts as in the first mode that allows it; otherwise the refusal from the first
/// mode that applies.
fn acting_user(objects: &Objects, user: &User, request: &Request, action: &Action) -> Result<User, Verdict> {
    let mut wanted = User::default();
    for (name, value) in &request.headers {
        let name = name.to_lowercase();
        match name.as_str() {
            "impersonate-user" => wanted.name.clone_from(value),
            "impersonate-uid" => wanted.uid.clone_from(value),
            "impersonate-group" => wanted.groups.push(value.clone()),
            _ => {
                let key = name.trim_start_matches("impersonate-extra-").replace("%2f", "/");
                wanted.extra.entry(key).or_default().push(value.clone());
            }
        }
    }
    if request.headers.is_empty() {
        return Ok(user.clone());
    }
    if wanted.name.is_empty() {
        return Err(Verdict::Nonsense);
    }
    let mut first = None;
    for mode in MODES {
        if !applies(mode, user, &wanted) {
            continue;
        }
        match impersonated(objects, user, &wanted, mode, action) {
            Ok(user) => return Ok(user),
            Err(message) => first = first.or(Some(message)),
        }
    }
    Err(Verdict::Refused(first.expect("the plain way always applies")))
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    let parts = name.strip_prefix("system:serviceaccount:")?.split(':').collect::<Vec<_>>();
    match parts.as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Some((namespace, name)),
        _ => None,
    }
}

fn node(name: &str) -> Option<&str> {
    let name = name.strip_prefix("system:node:")?;
    let is_name = |label: &str| {
        let is_letter = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|one| is_letter(*one))
            && bytes.last().is_some_and(|one| is_letter(*one))
            && bytes.iter().all(|one| is_letter(*one) || *one == b'-')
    };
    name.split('.').all(is_name).then_some(name)
}

fn applies(mode: &str, user: &User, wanted: &User) -> bool {
    let is_name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let own_node = match user.extra.get("authentication.kubernetes.io/node-name").map(Vec::as_slice) {
        Some([own]) => own.as_str(),
        _ => "",
    };
    match mode {
        "associated-node" => {
            is_name_only
                && service_account(&user.name).is_some()
                && node(&wanted.name).is_some_and(|name| name == own_node)
        }
        "arbitrary-node" => is_name_only && node(&wanted.name).is_some(),
        "serviceaccount" => is_name_only && service_account(&wanted.name).is_some(),
        "user-info" => node(&wanted.name).is_none() && service_account(&wanted.name).is_none(),
        _ => true,
    }
}

fn impersonated(
    objects: &Objects,
    user: &User,
    wanted: &User,
    mode: &str,
    action: &Action,
) -> Result<User, String> {
    let must =
        |action: Action| if may(objects, user, &action) { Ok(()) } else { Err(refusal(user, &action)) };
    let is_plain = mode.is_empty();
    let verb = if is_plain { "impersonate".to_owned() } else { format!("impersonate:{mode}") };
    if !is_plain {
        must(Action { verb: format!("impersonate-on:{mode}:{}", action.verb), ..action.clone() })?;
    }
    let about = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| Action {
        is_resource: true,
        verb: verb.clone(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: String::new(),
    };
    let authentication = "authentication.k8s.io";
    let group = if is_plain { "" } else { authentication };
    let mut acting = wanted.clone();
    match (service_account(&wanted.name), node(&wanted.name)) {
        (Some((namespace, name)), _) => {
            must(about(group, "serviceaccounts", "", namespace, name))?;
            if wanted.groups.is_empty() {
                acting.groups =
                    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
        }
        (None, Some(name)) if !is_plain => {
            must(about(group, "nodes", "", "", if mode == "associated-node" { "*" } else { name }))?;
            acting.groups = vec!["system:nodes".to_owned()];
        }
        _ => must(about(group, "users", "", "", &wanted.name))?,
    }
    if !wanted.uid.is_empty() {
        must(about(authentication, "uids", "", "", &wanted.uid))?;
    }
    let is_many = !is_plain && wanted.groups.len() >= 4;
    if !is_plain && wanted.groups.iter().any(|group| group == "system:masters") {
        return Err(refusal(user, &about(group, "groups", "", "", "system:masters")));
    }
    if !(is_many && must(about(group, "groups", "", "", "*")).is_ok()) {
        for one in &wanted.groups {
            must(about(group, "groups", "", "", one))?;
        }
    }
    let is_path = |key: &str| {
        let (domain, path) = key.split_once('/').unwrap_or(("", ""));
        !domain.is_empty() && !path.is_empty()
    };
    if !is_plain && wanted.extra.keys().any(|key| !is_path(key)) {
        return Err(refusal(user, &about(authentication, "userextras", "", "", "")));
    }
    for (key, values) in &wanted.extra {
        for value in values {
            must(about(authentication, "userextras", key, "", value))?;
        }
    }
    let everybody =
        if wanted.name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    let is_stranger = everybody == "system:authenticated"
        && acting.groups.iter().any(|one| one == "system:unauthenticated");
    if !is_stranger && !acting.groups.iter().any(|one| one == everybody) {
        acting.groups.push(everybody.to_owned());
    }
    Ok(acting)
}
