//! Performs the WebSocket handshake: recognizes the request, chooses the subprotocol, and computes the response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::body::Body;

/// The suffix that the RFC appends to the client's key.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The only existing version.
const VERSION: &str = "13";
/// The prefix of a subprotocol that carries a bearer token, for browsers. Such a subprotocol is never chosen.
const TOKEN_PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns whether the request asks to switch its connection to this protocol.
pub(crate) fn asks_for(headers: &HeaderMap, protocol: &str) -> bool {
    let is_upgrade =
        header_words(headers, &header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    is_upgrade && header_words(headers, &header::UPGRADE).any(|word| word.eq_ignore_ascii_case(protocol))
}

/// Returns whether the request asks for a WebSocket.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    asks_for(headers, "websocket")
}

/// Returns the comma-separated words of a header.
pub(crate) fn header_words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Returns the subprotocols that the client names.
fn asked_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    header_words(headers, &header::SEC_WEBSOCKET_PROTOCOL)
        .filter(|word| !word.starts_with(TOKEN_PROTOCOL_PREFIX))
}

/// Returns the first subprotocol that the client names; empty if it names none.
pub(crate) fn first_protocol(headers: &HeaderMap) -> &str {
    asked_protocols(headers).next().unwrap_or_default()
}

/// Chooses the first of the client's subprotocols that is offered, or the empty one if the client names none and the
/// empty one is offered. The error lists the client's subprotocols.
pub(crate) fn choose_protocol<'a>(headers: &HeaderMap, offered: &[&'a str]) -> Result<&'a str, String> {
    let asked = asked_protocols(headers).collect::<Vec<_>>();
    let known = |asked: &str| offered.iter().copied().find(|offer| *offer == asked);
    let chosen = if asked.is_empty() { known("") } else { asked.iter().find_map(|word| known(word)) };
    chosen.ok_or_else(|| {
        format!(
            "requested protocol(s) are not supported: [{}]; supports [{}]",
            asked.join(" "),
            offered.join(" ")
        )
    })
}

/// Returns the response that opens a WebSocket; `None` if the client's handshake is incomplete.
pub(crate) fn accept(headers: &HeaderMap, protocol: &str) -> Option<Response<Body>> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.to_str().ok()?.trim();
    let version = headers.get(header::SEC_WEBSOCKET_VERSION)?.to_str().ok()?;
    if version.trim() != VERSION || STANDARD.decode(key).ok()?.len() != 16 {
        return None;
    }
    let mut response = switch_to("websocket");
    let accepted = HeaderValue::from_str(&accepted_key(key)).ok()?;
    response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    if !protocol.is_empty() {
        let protocol = HeaderValue::from_str(protocol).ok()?;
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Some(response)
}

/// Returns the response that switches the protocol of a connection.
pub(crate) fn switch_to(protocol: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Returns the proof that the server has read the client's key.
fn accepted_key(key: &str) -> String {
    let text = format!("{key}{KEY_SUFFIX}");
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let row = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        assert_eq!(accepted_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let asked =
            headers(&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")]);
        let answer = accept(&asked, "v5.channel.k8s.io").unwrap();
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
        let short = headers(&[("sec-websocket-key", "dGhl"), ("sec-websocket-version", "13")]);
        assert!(accept(&short, "").is_none());
        let old =
            headers(&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "8")]);
        assert!(accept(&old, "").is_none());
    }

    #[test]
    fn a_request_names_the_protocols_it_wants() {
        let asked = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")]);
        assert!(is_websocket(&asked) && !asks_for(&asked, "SPDY/3.1"));
        assert!(!is_websocket(&headers(&[("upgrade", "websocket")])));
        let offered = ["v5.channel.k8s.io", "", "v4.channel.k8s.io"];
        let choose = |text| choose_protocol(&headers(&[("sec-websocket-protocol", text)]), &offered);
        assert_eq!(choose("v4.channel.k8s.io,v5.channel.k8s.io"), Ok("v4.channel.k8s.io"));
        assert_eq!(choose("other, v5.channel.k8s.io"), Ok("v5.channel.k8s.io"));
        assert_eq!(
            choose("base64url.bearer.authorization.k8s.io.abc, v4.channel.k8s.io"),
            Ok("v4.channel.k8s.io")
        );
        assert_eq!(choose_protocol(&HeaderMap::new(), &offered), Ok(""));
        assert!(choose("other").unwrap_err().contains("[other]"));
    }
}
