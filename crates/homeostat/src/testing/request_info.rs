//! Determines what a request from an operator asks for, and for which kind.

use homeostat_core::RequestTarget;
use homeostat_core::request_target::asks_for_watch;
use homeostat_runtime::Kind;
use http::Request;

/// Returns the target of a request; `None` for discovery, health checks and similar requests. The name of an object to
/// be created is in the body and stays unknown.
pub(super) fn request_target<B>(request: &Request<B>) -> Option<RequestTarget> {
    let uri = request.uri();
    RequestTarget::parse(request.method().as_str(), uri.path(), uri.query().unwrap_or_default(), b"")
}

/// Returns whether a request asks for objects of the kind, or for their status.
pub(super) fn is_of_kind<K: Kind>(target: &RequestTarget) -> bool {
    target.group == K::group(&()) && target.plural == K::plural(&())
}

/// Returns whether a request is a watch, which continues until one side ends it.
pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(asks_for_watch)
}

#[cfg(test)]
mod tests {
    use homeostat_core::RequestVerb;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    #[track_caller]
    fn check<K: Kind>(method: &str, path: &str, expected: RequestVerb) {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let target = request_target(&request).unwrap();
        assert!(is_of_kind::<K>(&target), "{path} is {}", target.resource());
        assert_eq!(target.verb, expected, "{method} {path}");
    }

    #[test]
    fn a_request_has_a_verb_and_a_kind() {
        check::<ConfigMap>("GET", "/api/v1/namespaces/a/configmaps?watch=true", RequestVerb::Watch);
        check::<Deployment>("PUT", "/apis/apps/v1/namespaces/a/deployments/b/status", RequestVerb::Update);
        check::<Namespace>("DELETE", "/api/v1/namespaces/a", RequestVerb::Delete);
        let probe = Request::get("/healthz").body(()).unwrap();
        assert!(request_target(&probe).is_none());
    }
}
