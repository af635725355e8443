//! Determines the target of a request: the verb and the object, read from its method, path, query and body.
//!
//! Both simulators use it to name the points of a schedule, so a name contains nothing that an unrelated change to the
//! operator would change: no request numbers, no revisions, no uids. The API server has its own path parser, which must
//! reject malformed paths; this one ignores them.

use serde::Deserialize;

/// What a request does, in Kubernetes' terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    /// Reads one object.
    Get,
    /// Reads all objects of a kind.
    List,
    /// Follows the objects of a kind. The runtime begins every watch with a streamed list.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object, or its status.
    Update,
    /// Patches or applies an object, or its status.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes all objects of a kind.
    DeleteCollection,
}

impl RequestVerb {
    /// Returns the verb for a method on one object or on a collection; `None` if resources have no such method.
    pub fn of_method(method: &str, is_collection: bool, is_watch: bool) -> Option<Self> {
        Some(match method {
            "GET" if !is_collection => Self::Get,
            "GET" if is_watch => Self::Watch,
            "GET" => Self::List,
            "POST" => Self::Create,
            "PUT" => Self::Update,
            "PATCH" => Self::Patch,
            "DELETE" if is_collection => Self::DeleteCollection,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    /// Returns its name in discovery and in role rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Returns whether it changes anything.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// The verb and the object of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// What it does.
    pub verb: RequestVerb,
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub plural: String,
    /// Empty for cluster-scoped objects, and for all namespaces.
    pub namespace: String,
    /// Empty for collections. The name of a new object comes from the body; a generated one is `prefix*`.
    pub name: String,
    /// `status`, `scale`, …; empty for the object itself.
    pub subresource: String,
}

#[derive(Deserialize, Default)]
struct NamedObject {
    #[serde(default)]
    metadata: NamedMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NamedMetadata {
    name: Option<String>,
    generate_name: Option<String>,
}

impl RequestTarget {
    /// Parses a request; returns `None` if it is not about a resource (discovery, health, …).
    pub fn parse(method: &str, path: &str, query: &str, body: &[u8]) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match &rest[..] {
            ["namespaces", _, "status" | "finalize"] => ("", &rest[..]),
            ["namespaces", namespace, _, ..] => (*namespace, &rest[2..]),
            _ => ("", &rest[..]),
        };
        let text = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let (plural, mut name) = (rest.first().copied()?.to_owned(), text(1));
        // HEAD is treated like GET.
        let method = if method == "HEAD" { "GET" } else { method };
        let verb = RequestVerb::of_method(method, name.is_empty(), asks_for_watch(query))?;
        if verb == RequestVerb::Create && name.is_empty() {
            let NamedObject { metadata } = serde_json::from_slice(body).unwrap_or_default();
            let generated = metadata.generate_name.map(|prefix| format!("{prefix}*"));
            name = metadata.name.or(generated).unwrap_or_default();
        }
        let (group, namespace) = (group.to_owned(), namespace.to_owned());
        Some(Self { verb, group, plural, namespace, name, subresource: text(2) })
    }

    /// Returns the resource as kubectl writes it, without its subresource: `pages.demo.dev`.
    pub fn resource(&self) -> String {
        shown_resource(&self.group, &self.plural)
    }

    /// Returns the object in readable form: `configmaps default/home`.
    pub fn object(&self) -> String {
        let slash = if self.namespace.is_empty() || self.name.is_empty() { "" } else { "/" };
        let space = if self.namespace.is_empty() && self.name.is_empty() { "" } else { " " };
        format!("{}{space}{}{slash}{}", self.resource(), self.namespace, self.name)
    }

    /// Returns the complete name of the request: `create configmaps default/home`.
    pub fn shown(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.verb.name(), self.object(), self.subresource)
    }
}

/// Returns whether a query asks for a watch. kube-apiserver treats every value except `0` and `false` as true.
pub fn asks_for_watch(query: &str) -> bool {
    query.split('&').any(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        name == "watch" && value != "0" && !value.eq_ignore_ascii_case("false")
    })
}

/// Returns a resource as kubectl writes it: `configmaps`, `pages.demo.dev`.
pub fn shown_resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, query: &str, body: &str, expected: &str) {
        let target = RequestTarget::parse(method, path, query, body.as_bytes()).expect("a resource");
        assert_eq!(target.shown(), expected);
    }

    #[test]
    fn requests_are_named_for_what_they_ask() {
        let named = r#"{"metadata":{"name":"home"}}"#;
        let generated = r#"{"metadata":{"generateName":"web-"}}"#;
        let maps = "/api/v1/namespaces/default/configmaps";
        check("POST", maps, "", named, "create configmaps default/home");
        check("POST", "/api/v1/namespaces/a/pods", "", generated, "create pods a/web-*");
        check("POST", "/api/v1/nodes", "", "not JSON", "create nodes");
        let status = "/apis/demo.dev/v1/namespaces/a/pages/x/status";
        check("PATCH", status, "", "", "patch pages.demo.dev a/x/status");
        check("PUT", "/api/v1/namespaces/a/finalize", "", "", "update namespaces a/finalize");
        check("GET", "/api/v1/namespaces/a", "", "", "get namespaces a");
        check("GET", "/api/v1/configmaps", "watch=false", "", "list configmaps");
        check("GET", "/apis/demo.dev/v1/pages", "limit=5&watch=true", "", "watch pages.demo.dev");
        check("GET", "/api/v1/namespaces/a/pods/x", "watch=true", "", "get pods a/x");
        check("DELETE", "/api/v1/namespaces/a/pods", "", "", "deletecollection pods a");
        check("DELETE", "/api/v1/namespaces/a", "", "", "delete namespaces a");
    }

    #[test]
    fn documents_are_no_resources() {
        for path in ["/healthz", "/version", "/api/v1", "/apis/demo.dev/v1", "/"] {
            assert_eq!(RequestTarget::parse("GET", path, "", b""), None, "{path}");
        }
        assert_eq!(RequestTarget::parse("OPTIONS", "/api/v1/pods", "", b""), None);
    }
}
