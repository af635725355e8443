//! What a call is called: who asks for what, of which object. The name is the address of the point in a trace, so it holds
//! nothing that an unrelated change of the operator would change: no numbers of calls in general, no revisions, no uids.

use http::Method;
use serde::Deserialize;

use crate::resource_name::shown;

/// How an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallVerb {
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
    /// Does it change anything?
    pub(crate) fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// As in rules of roles.
    pub(crate) fn name(self) -> &'static str {
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
#[derive(Clone, Debug)]
pub(crate) struct CallTarget {
    pub(crate) verb: CallVerb,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    metadata: NamedMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NamedMeta {
    name: Option<String>,
    generate_name: Option<String>,
}

impl CallTarget {
    /// Reads a request; none when it is not about a resource.
    pub(crate) fn parse(method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => String::new(),
            "apis" => parts.next()?.to_owned(),
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match &rest[..] {
            ["namespaces", _, "status" | "finalize"] => ("", &rest[..]),
            ["namespaces", namespace, _, ..] => (*namespace, &rest[2..]),
            _ => ("", &rest[..]),
        };
        let plural = (*rest.first()?).to_owned();
        let mut name = rest.get(1).copied().unwrap_or_default().to_owned();
        let subresource = rest.get(2).copied().unwrap_or_default().to_owned();
        let is_collection = name.is_empty();
        let verb = match *method {
            Method::GET if query.contains("watch=true") || query.contains("watch=1") => CallVerb::Watch,
            Method::GET if is_collection => CallVerb::List,
            Method::POST => CallVerb::Create,
            Method::PUT => CallVerb::Update,
            Method::PATCH => CallVerb::Patch,
            Method::DELETE if is_collection => CallVerb::DeleteCollection,
            Method::DELETE => CallVerb::Delete,
            _ => CallVerb::Get,
        };
        if verb == CallVerb::Create && is_collection {
            let Named { metadata } = serde_json::from_slice(body).unwrap_or_default();
            let generated = metadata.generate_name.map(|prefix| format!("{prefix}*"));
            name = metadata.name.or(generated).unwrap_or_default();
        }
        Some(Self { verb, group, plural, namespace: namespace.to_owned(), name, subresource })
    }

    /// The resource as people read it, without its subresource.
    pub(crate) fn resource(&self) -> String {
        shown(&self.group, &self.plural)
    }

    /// The object as people read it: `configmaps default/home`.
    pub(crate) fn object(&self) -> String {
        let slash = if self.namespace.is_empty() || self.name.is_empty() { "" } else { "/" };
        let space = if self.namespace.is_empty() && self.name.is_empty() { "" } else { " " };
        format!("{}{space}{}{slash}{}", self.resource(), self.namespace, self.name)
    }

    /// The whole of it: `create configmaps default/home`.
    pub(crate) fn shown(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.verb.name(), self.object(), self.subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, path: &str, query: &str, body: &str, expected: &str) {
        let target = CallTarget::parse(method, path, query, body.as_bytes()).expect("a resource");
        assert_eq!(target.shown(), expected);
    }

    #[test]
    fn calls_are_named_for_what_they_ask() {
        let named = r#"{"metadata":{"name":"home"}}"#;
        let generated = r#"{"metadata":{"generateName":"web-"}}"#;
        check(
            &Method::POST,
            "/api/v1/namespaces/default/configmaps",
            "",
            named,
            "create configmaps default/home",
        );
        check(&Method::POST, "/api/v1/namespaces/a/pods", "", generated, "create pods a/web-*");
        check(
            &Method::PATCH,
            "/apis/demo.dev/v1/namespaces/a/pages/x/status",
            "",
            "",
            "patch pages.demo.dev a/x/status",
        );
        check(&Method::GET, "/api/v1/namespaces/a", "", "", "get namespaces a");
        check(&Method::GET, "/apis/demo.dev/v1/pages", "watch=true", "", "watch pages.demo.dev");
        check(&Method::DELETE, "/api/v1/namespaces/a/pods", "", "", "deletecollection pods a");
    }
}
