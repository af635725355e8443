//! The name of a request: which verb, on which object. With an ordinal it is the address of a fault, so it contains
//! nothing that depends on time: no revisions, no uids, no global request numbers.

use http::Method;
use serde::Deserialize;

use super::cluster_state::shown_resource;

/// The verb of a request, as in the rules of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallVerb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl CallVerb {
    /// Returns whether it changes anything.
    pub(super) fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    fn name(self) -> &'static str {
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
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallTarget {
    pub(super) verb: CallVerb,
    pub(super) group: String,
    /// Empty for documents: discovery, health, versions.
    pub(super) plural: String,
    pub(super) namespace: String,
    /// The name, a generated one as `prefix*`; empty for collections; the path of a document.
    pub(super) name: String,
    pub(super) subresource: String,
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

impl CallTarget {
    /// Parses a request.
    pub(super) fn parse(method: &Method, path: &str, query: &str, body: &[u8]) -> Self {
        Self::parse_resource(method, path, query, body).unwrap_or_else(|| Self {
            verb: CallVerb::Get,
            group: String::new(),
            plural: String::new(),
            namespace: String::new(),
            name: path.to_owned(),
            subresource: String::new(),
        })
    }

    fn parse_resource(method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Self> {
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
        let verb = verb_of(method, query, name.is_empty());
        if verb == CallVerb::Create && name.is_empty() {
            let NamedObject { metadata } = serde_json::from_slice(body).unwrap_or_default();
            let generated = metadata.generate_name.map(|prefix| format!("{prefix}*"));
            name = metadata.name.or(generated).unwrap_or_default();
        }
        let (group, namespace) = (group.to_owned(), namespace.to_owned());
        Some(Self { verb, group, plural, namespace, name, subresource: text(2) })
    }

    /// Returns whether it concerns objects, rather than a document.
    pub(super) fn is_resource(&self) -> bool {
        !self.plural.is_empty()
    }

    /// Returns whether it writes state: no Events, no Leases, no reviews.
    pub(super) fn is_state_write(&self) -> bool {
        let is_note = matches!(&*self.plural, "events" | "leases") || self.plural.ends_with("reviews");
        self.is_resource() && self.verb.is_write() && !is_note
    }

    /// Returns the object as people read it: `configmaps default/home`.
    pub(super) fn object(&self) -> String {
        if !self.is_resource() {
            return self.name.clone();
        }
        let resource = shown_resource(&self.group, &self.plural);
        let slash = if self.namespace.is_empty() || self.name.is_empty() { "" } else { "/" };
        let space = if self.namespace.is_empty() && self.name.is_empty() { "" } else { " " };
        format!("{resource}{space}{}{slash}{}", self.namespace, self.name)
    }

    /// Returns the complete address: `create configmaps default/home`.
    pub(super) fn shown(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.verb.name(), self.object(), self.subresource)
    }
}

fn verb_of(method: &Method, query: &str, is_collection: bool) -> CallVerb {
    let is_watch =
        || query.split('&').any(|part| matches!(part, "watch" | "watch=true" | "watch=True" | "watch=1"));
    match *method {
        Method::GET if is_watch() => CallVerb::Watch,
        Method::GET if is_collection => CallVerb::List,
        Method::POST => CallVerb::Create,
        Method::PUT => CallVerb::Update,
        Method::PATCH => CallVerb::Patch,
        Method::DELETE if is_collection => CallVerb::DeleteCollection,
        Method::DELETE => CallVerb::Delete,
        _ => CallVerb::Get,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, path: &str, query: &str, body: &str, expected: &str) {
        assert_eq!(CallTarget::parse(method, path, query, body.as_bytes()).shown(), expected);
    }

    #[test]
    fn requests_are_named_for_what_they_ask() {
        let named = r#"{"metadata":{"name":"home"}}"#;
        let generated = r#"{"metadata":{"generateName":"web-"}}"#;
        let maps = "/api/v1/namespaces/default/configmaps";
        check(&Method::POST, maps, "", named, "create configmaps default/home");
        check(&Method::POST, "/api/v1/namespaces/a/pods", "", generated, "create pods a/web-*");
        let status = "/apis/demo.dev/v1/namespaces/a/pages/x/status";
        check(&Method::PATCH, status, "", "", "patch pages.demo.dev a/x/status");
        check(&Method::GET, "/api/v1/namespaces/a", "", "", "get namespaces a");
        check(&Method::GET, "/apis/demo.dev/v1/pages", "limit=5&watch=true", "", "watch pages.demo.dev");
        check(&Method::DELETE, "/api/v1/namespaces/a/pods", "", "", "deletecollection pods a");
        check(&Method::GET, "/apis/demo.dev/v1", "", "", "get /apis/demo.dev/v1");
        check(&Method::GET, "/version", "", "", "get /version");
    }
}
