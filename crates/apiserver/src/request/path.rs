//! The grammar of paths: which thing of the API a path names.
//!
//! Segments are split before they are percent-decoded, so an encoded slash stays inside its segment; a segment that
//! decodes to `.`, `..` or to text with a slash names nothing. Whether the resource exists is not decided here.

use std::borrow::Cow;

use homeostat_core::selector::FieldSelector;
use percent_encoding::percent_decode_str;

use super::Query;
use crate::auth::Attributes;
use crate::status::Status;

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource of the API.
    Resource(ResourcePath),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`
    GroupVersion(String, String),
    /// Anything else, left to its own handler.
    Other,
}

/// A resource, an object of it, or a subresource of that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// Reached through the old `/watch/` prefix.
    pub(crate) is_watch: bool,
}

impl ResourcePath {
    /// The name that rules are asked about. A list or watch of one name counts as a request for that name.
    pub(crate) fn judged_name(&self, verb: &str, query: &Query) -> Cow<'_, str> {
        if !self.name.is_empty() || !matches!(verb, "list" | "watch") {
            return self.name.as_str().into();
        }
        let fields = FieldSelector::parse(query.get("fieldSelector")).unwrap_or_default();
        let name = fields.exact("metadata.name").unwrap_or_default();
        let is_segment = !matches!(name, "." | "..") && !name.contains(['/', '%']);
        if is_segment { name.to_owned().into() } else { "".into() }
    }

    /// What rules are asked about a request of this verb; `name` may come from elsewhere than the path.
    pub(crate) fn attributes<'a>(&'a self, verb: &'a str, name: &'a str) -> Attributes<'a> {
        let is_namespace = self.resource == "namespaces" && self.namespace.is_empty();
        Attributes::Resource {
            verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: if is_namespace { &self.name } else { &self.namespace },
            name,
        }
    }
}

impl Target {
    pub(crate) fn parse(path: &str) -> Result<Self, Status> {
        let segments = segments(path)?;
        let segments = segments.iter().map(String::as_str).collect::<Vec<_>>();
        Ok(match segments.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group, version] => Self::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => resource("", version, rest),
            ["apis", group, version, rest @ ..] => resource(group, version, rest),
            _ => Self::Other,
        })
    }
}

/// Splits and decodes; a trailing slash is ignored.
fn segments(path: &str) -> Result<Vec<String>, Status> {
    let path = path.trim_start_matches('/');
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(segment).collect()
}

fn segment(raw: &str) -> Result<String, Status> {
    let decoded = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| Status::bad_request(format!("the path segment {raw:?} is not valid UTF-8")))?;
    if raw.contains('%') && (decoded.contains(['/', '%', '\0']) || decoded == "." || decoded == "..") {
        return Err(Status::bad_request(format!("the path segment {decoded:?} may not be part of a name")));
    }
    Ok(decoded.into_owned())
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Target {
    let (is_watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, resource, name, subresource) = match rest {
        ["namespaces", namespace, sub @ ("status" | "finalize")] => ("", "namespaces", *namespace, *sub),
        ["namespaces", namespace, resource, rest @ ..] if rest.len() <= 2 => {
            let name = rest.first().copied().unwrap_or_default();
            let sub = rest.get(1).copied().unwrap_or_default();
            (*namespace, *resource, name, sub)
        }
        [resource, rest @ ..] if rest.len() <= 2 => {
            let name = rest.first().copied().unwrap_or_default();
            let sub = rest.get(1).copied().unwrap_or_default();
            ("", *resource, name, sub)
        }
        _ => return Target::Other,
    };
    Target::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        is_watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: [&str; 6]) {
        let Ok(Target::Resource(found)) = Target::parse(path) else { panic!("{path} is a resource path") };
        let found = [
            &*found.group,
            &*found.version,
            &*found.namespace,
            &*found.resource,
            &*found.name,
            &*found.subresource,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_of_resources() {
        check("/api/v1/pods", ["", "v1", "", "pods", "", ""]);
        check("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]);
        check("/api/v1/namespaces/a", ["", "v1", "", "namespaces", "a", ""]);
        check("/api/v1/namespaces/a/status", ["", "v1", "", "namespaces", "a", "status"]);
        check("/api/v1/namespaces/a/pods", ["", "v1", "a", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/p/log", ["", "v1", "a", "pods", "p", "log"]);
        check("/apis/apps/v1/namespaces/a/deployments/d", ["apps", "v1", "a", "deployments", "d", ""]);
        check("/apis/g.io/v1/things/x/status", ["g.io", "v1", "", "things", "x", "status"]);
        check("/api/v1/watch/namespaces/a/pods", ["", "v1", "a", "pods", "", ""]);
    }

    #[test]
    fn hostile_segments_are_refused() {
        for path in
            ["/api/v1/namespaces/a%2Fb/pods", "/api/v1/pods/%2e%2e", "/api/v1/pods/%ff", "/api/v1/pods/a%00"]
        {
            assert!(Target::parse(path).is_err(), "{path}");
        }
        assert_eq!(Target::parse("/a/b/c").ok(), Some(Target::Other));
    }
}
