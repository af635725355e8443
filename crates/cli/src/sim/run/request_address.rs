//! The address of a request: its verb and its object. Requests that are not about objects also have one, because they
//! can fail like any other.

use homeostat_core::{RequestTarget, RequestVerb};
use http::Method;

/// Parses a request. A document (discovery, health, versions) has no resource, and its name is its path.
pub(super) fn request_target(method: &Method, path: &str, query: &str, body: &[u8]) -> RequestTarget {
    RequestTarget::parse(method.as_str(), path, query, body).unwrap_or_else(|| RequestTarget {
        verb: RequestVerb::Get,
        group: String::new(),
        plural: String::new(),
        namespace: String::new(),
        name: path.to_owned(),
        subresource: String::new(),
    })
}

/// Returns whether a request concerns objects, rather than a document.
pub(super) fn is_about_objects(target: &RequestTarget) -> bool {
    !target.plural.is_empty()
}

/// Returns whether a request writes state: no Events, no Leases, no reviews.
pub(super) fn is_state_write(target: &RequestTarget) -> bool {
    let is_note = matches!(&*target.plural, "events" | "leases") || target.plural.ends_with("reviews");
    is_about_objects(target) && target.verb.is_write() && !is_note
}

/// Returns the address of a request: `create configmaps default/home`, `get /version`.
pub(super) fn address_of(target: &RequestTarget) -> String {
    if is_about_objects(target) { target.shown() } else { format!("{} {}", target.verb.name(), target.name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_addresses() {
        let check = |path: &str, expected: &str| {
            assert_eq!(address_of(&request_target(&Method::GET, path, "", b"")), expected);
        };
        check("/apis/demo.dev/v1", "get /apis/demo.dev/v1");
        check("/version", "get /version");
        check("/api/v1/nodes", "list nodes");
    }
}
