//! What a request asks for: the verb and the resource, as rules of roles name them.

use homeostat_runtime::Kind;
use http::{Method, Request};

/// What a request does, in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    /// Reads one object.
    Get,
    /// Reads all objects of a kind.
    List,
    /// Follows the objects of a kind. The runtime begins every watch with a list that it streams.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object, or its status.
    Update,
    /// Patches or applies an object, or its status.
    Patch,
    /// Deletes an object, or all of a kind.
    Delete,
}

/// The verb and the resource of a request.
pub(super) struct RequestInfo<'a> {
    pub(super) verb: RequestVerb,
    group: &'a str,
    resource: &'a str,
}

impl<'a> RequestInfo<'a> {
    /// Reads them from method and path; none for discovery, health and the like.
    pub(super) fn parse<B>(request: &'a Request<B>) -> Option<Self> {
        let parts: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        let (group, rest) = match parts[..] {
            ["api", _version, ref rest @ ..] => ("", rest),
            ["apis", group, _version, ref rest @ ..] => (group, rest),
            _ => return None,
        };
        let (resource, name) = match *rest {
            ["namespaces", _, resource, ref rest @ ..] if !["status", "finalize"].contains(&resource) => {
                (resource, rest.first())
            }
            [resource, ref rest @ ..] => (resource, rest.first()),
            [] => return None,
        };
        let verb = match *request.method() {
            Method::GET if is_watch(request) => RequestVerb::Watch,
            Method::GET if name.is_some() => RequestVerb::Get,
            Method::GET => RequestVerb::List,
            Method::POST => RequestVerb::Create,
            Method::PUT => RequestVerb::Update,
            Method::PATCH => RequestVerb::Patch,
            Method::DELETE => RequestVerb::Delete,
            _ => return None,
        };
        Some(Self { verb, group, resource })
    }

    /// Is this the resource of the kind?
    pub(super) fn is_of<K: Kind>(&self) -> bool {
        self.group == K::group(&()) && self.resource == K::plural(&())
    }
}

/// Whether it is a watch, which continues until one side ends it.
pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};

    use super::*;

    #[track_caller]
    fn check<K: Kind>(method: &str, path: &str, expected: RequestVerb) {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let info = RequestInfo::parse(&request).unwrap();
        assert!(info.is_of::<K>(), "{path} is {}/{}", info.group, info.resource);
        assert_eq!(info.verb, expected, "{method} {path}");
    }

    #[test]
    fn a_request_has_a_verb_and_a_resource() {
        check::<ConfigMap>("GET", "/api/v1/configmaps", RequestVerb::List);
        check::<ConfigMap>("GET", "/api/v1/namespaces/a/configmaps?watch=true", RequestVerb::Watch);
        check::<ConfigMap>("GET", "/api/v1/namespaces/a/configmaps/b", RequestVerb::Get);
        check::<ConfigMap>("PATCH", "/api/v1/namespaces/a/configmaps/b", RequestVerb::Patch);
        check::<Deployment>("PUT", "/apis/apps/v1/namespaces/a/deployments/b/status", RequestVerb::Update);
        check::<Node>("POST", "/api/v1/nodes", RequestVerb::Create);
        check::<Namespace>("DELETE", "/api/v1/namespaces/a", RequestVerb::Delete);
        check::<Namespace>("PUT", "/api/v1/namespaces/a/finalize", RequestVerb::Update);
        let probe = Request::get("/healthz").body(()).unwrap();
        assert!(RequestInfo::parse(&probe).is_none());
    }
}
