//! Implements the grammar of paths: what an API path refers to.
//!
//! As in Kubernetes, a path is percent-decoded first and then split, so an encoded slash separates segments like a
//! plain one, for rules and routes alike. Whether the resource exists, and whether a name is valid, is decided
//! elsewhere.

use std::borrow::Cow;

use homeostat_api::negotiate::has_broken_escape;
use homeostat_api::status::Status;
use homeostat_core::selector::FieldSelector;
use percent_encoding::percent_decode_str;

use super::{Query, Verb};
use crate::auth::RequestAttributes;

/// The target that a path refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// An API resource.
    Resource(ResourcePath),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`
    GroupVersion(String, String),
    /// Any other path, which has its own handler.
    Other,
    /// A path that is never valid, regardless of what is served.
    Nowhere,
}

/// A resource, one of its objects, or a subresource of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// The path below the subresource: empty, or with a leading slash.
    pub(crate) rest: String,
    /// Whether it uses the old `/watch/` prefix.
    pub(crate) is_watch: bool,
}

impl ResourcePath {
    /// Returns the name for which the request is authorized. A list or watch of a single name counts as a request for
    /// that name, unless it uses the old prefix.
    pub(crate) fn authorized_name(&self, verb: Option<Verb>, query: &Query) -> Cow<'_, str> {
        if !self.name.is_empty() || self.is_watch || !matches!(verb, Some(Verb::List | Verb::Watch)) {
            return self.name.as_str().into();
        }
        let fields = FieldSelector::parse(query.get("fieldSelector")).unwrap_or_default();
        let name = fields.exact("metadata.name").unwrap_or_default();
        let is_segment = !matches!(name, "." | "..") && !name.contains(['/', '%']);
        if is_segment { name.to_owned().into() } else { "".into() }
    }

    /// Returns the attributes for which a request with this verb is authorized; `name` may differ from the one in the
    /// path.
    pub(crate) fn attributes<'a>(&'a self, verb: &'a str, name: &'a str) -> RequestAttributes<'a> {
        let is_namespace = self.resource == "namespaces" && self.namespace.is_empty();
        RequestAttributes::Resource {
            verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: if is_namespace { &self.name } else { &self.namespace },
            name,
        }
    }
}

impl PathTarget {
    /// Parses a decoded path.
    pub(crate) fn parse(path: &str) -> Self {
        if path.starts_with("//") {
            return Self::Nowhere;
        }
        let segments = path.trim_matches('/').split('/').collect::<Vec<_>>();
        let mut target = match segments.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group, version] => Self::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => parse_resource("", version, rest),
            ["apis", group, version, rest @ ..] => parse_resource(group, version, rest),
            _ => Self::Other,
        };
        if let Self::Resource(resource) = &mut target
            && !resource.subresource.is_empty()
        {
            resource.rest = path_below_subresource(path, resource).to_owned();
        }
        target
    }
}

/// Returns the path after the subresource, with its slashes unchanged.
fn path_below_subresource<'a>(path: &'a str, resource: &ResourcePath) -> &'a str {
    let root = if resource.group.is_empty() { 2 } else { 3 };
    let is_in_namespace = !resource.namespace.is_empty();
    let segments = root + 2 * usize::from(is_in_namespace) + usize::from(resource.is_watch) + 3;
    let start = path.len() - path.trim_start_matches('/').len();
    let mut slashes = path[start..].match_indices('/');
    slashes.nth(segments - 1).map_or("", |(at, _)| &path[start + at..])
}

/// Decodes the path of a request. Bytes that are not UTF-8 become replacement characters, which no name contains.
pub(crate) fn decode(raw: &str) -> Result<Cow<'_, str>, Status> {
    if has_broken_escape(raw) {
        return Err(Status::broken_path());
    }
    Ok(percent_decode_str(raw).decode_utf8_lossy())
}

fn parse_resource(group: &str, version: &str, rest: &[&str]) -> PathTarget {
    let (is_watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize", ..] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    PathTarget::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: part(0),
        name: part(1),
        subresource: part(2),
        rest: String::new(),
        is_watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: [&str; 6]) {
        let PathTarget::Resource(found) = PathTarget::parse(&decode(path).expect(path)) else {
            panic!("{path} is a resource path")
        };
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
    fn encoded_segments_count_like_plain_ones() {
        check("/api/v1/pods/a%2Fstatus", ["", "v1", "", "pods", "a", "status"]);
        check("/api/v1%2Fnamespaces%2Fa/pods%2F", ["", "v1", "a", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/%2e%2e", ["", "v1", "a", "pods", "..", ""]);
        check("/api/v1/pods/a%00", ["", "v1", "", "pods", "a\0", ""]);
        check("/api/v1/pods/%ff", ["", "v1", "", "pods", "\u{fffd}", ""]);
        check("/api/v1/namespaces/a%2Fb/pods", ["", "v1", "a", "b", "pods", ""]);
        for path in ["/api/v1/pods/%zz", "/api/v1/pods/%", "/api/v1/pods/%2"] {
            assert_eq!(
                decode(path).map_err(|status| (status.code, status.is_plain)),
                Err((400, true)),
                "{path}"
            );
        }
    }

    #[test]
    fn paths_that_are_too_long_or_have_the_watch_prefix_twice() {
        assert_eq!(PathTarget::parse("/a/b/c"), PathTarget::Other);
        assert_eq!(PathTarget::parse("//api/v1/pods"), PathTarget::Nowhere);
        let PathTarget::Resource(long) = PathTarget::parse("/api/v1/namespaces/a/pods/p/proxy/x/y") else {
            panic!("is a resource path")
        };
        assert_eq!((&*long.subresource, &*long.rest), ("proxy", "/x/y"));
    }

    #[test]
    fn what_follows_a_subresource_keeps_its_slashes() {
        let check = |path: &str, expected: &str| {
            let PathTarget::Resource(found) = PathTarget::parse(path) else {
                panic!("{path} is a resource path")
            };
            assert_eq!((&*found.subresource, &*found.rest), ("proxy", expected), "{path}");
        };
        check("/api/v1/namespaces/a/pods/p/proxy", "");
        check("/api/v1/namespaces/a/pods/p/proxy/", "/");
        check("/api/v1/namespaces/a/pods/p/proxy/x//y/", "/x//y/");
        check("/api/v1/nodes/n/proxy/x", "/x");
        check("/apis/g.io/v1/namespaces/a/things/p/proxy/x", "/x");
    }
}
