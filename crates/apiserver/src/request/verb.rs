//! Determines the verb of a request on a resource, from its method, path and query.
//!
//! **Invariant:** a request has one verb, derived once, when it is routed.

use homeostat_core::RequestVerb;
use http::Method;

use super::routing::PROXY;
use super::{Query, ResourcePath};

/// Returns the verb of a request; `None` if resources have no such method.
pub(crate) fn verb_of_request(method: &Method, path: &ResourcePath, query: &Query) -> Option<RequestVerb> {
    if *method == Method::GET && path.is_watch {
        return Some(RequestVerb::Watch);
    }
    if *method == Method::HEAD && path.subresource == PROXY {
        return Some(RequestVerb::Get);
    }
    RequestVerb::of_method(method.as_str(), path.name.is_empty(), query.flag("watch"))
}

/// Returns the verb for which a request is authorized. HEAD counts as GET, and the old `/watch/` prefix makes every
/// method a watch; methods other than GET are refused afterwards.
pub(crate) fn verb_to_authorize(method: &Method, path: &ResourcePath, query: &Query) -> Option<RequestVerb> {
    match *method {
        _ if path.is_watch => Some(RequestVerb::Watch),
        Method::HEAD => verb_of_request(&Method::GET, path, query),
        _ => verb_of_request(method, path, query),
    }
}
