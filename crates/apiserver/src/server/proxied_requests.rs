//! Keeps the parts of a request that are needed to forward it to a Pod.

use http::header;
use http::request::Parts;

use crate::request::routing::PROXY;
use crate::request::{ResourcePath, text_header};
use crate::serve::ClientAddress;
use crate::streams::http_proxy::ProxiedRequest;

/// Returns the request to forward; `None` if it is for this server itself.
pub(super) fn proxied_request(parts: &Parts, decoded: &str, path: &ResourcePath) -> Option<ProxiedRequest> {
    if path.subresource != PROXY {
        return None;
    }
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    Some(ProxiedRequest {
        method: parts.method.clone(),
        prefix: decoded.strip_suffix(&path.rest).unwrap_or(decoded).to_owned(),
        rest: path.rest.clone(),
        query: parts.uri.query().map(ToOwned::to_owned),
        host: text_header(parts, &header::HOST).or(authority).unwrap_or_default().to_owned(),
        client: parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address),
    })
}
