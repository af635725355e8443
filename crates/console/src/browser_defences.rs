//! Protects the page in a browser: checks every request, and adds headers to every response.
//!
//! - DNS rebinding: a page on another site whose name resolves to this machine sends that name as `Host`, and is
//!   rejected.
//! - Cross-site requests: only the page's own script adds the token, never the browser, so requests triggered by
//!   another site carry none.
//! - Injected content: only this server's own files load or run, and no other site may frame the page.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Only our own files, no inline script, no other site, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Adds the headers that every response carries.
pub(crate) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Returns whether `Host` names this machine or is one of the allowed names.
pub(crate) fn is_meant_for_us(headers: &HeaderMap, allowed: &[String]) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
        return false;
    };
    let name = host_name(host);
    ["127.0.0.1", "localhost", "[::1]"].contains(&name) || allowed.iter().any(|one| one == name)
}

/// Returns whether a request for data comes from our own page, as far as the browser says. Other programs do not send
/// the header and are allowed.
pub(crate) fn is_from_our_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, None | Some(b"same-origin" | b"none"))
}

/// Returns the token of the request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?.trim();
    (!token.is_empty()).then_some(token)
}

/// Returns the host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_this_host_are_answered() {
        let check = |host: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            assert_eq!(is_meant_for_us(&headers, &["console.example".to_owned()]), expected, "{host}");
        };
        for host in
            ["127.0.0.1:8080", "localhost:1", "localhost", "[::1]:8080", "[::1]", "console.example:443"]
        {
            check(host, true);
        }
        for host in
            ["evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2", "", "::1"]
        {
            check(host, false);
        }
        assert!(!is_meant_for_us(&HeaderMap::new(), &[]));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost".parse().unwrap());
        twice.append(header::HOST, "evil.example".parse().unwrap());
        assert!(!is_meant_for_us(&twice, &[]));
    }

    #[test]
    fn the_token_is_read_from_the_bearer_header() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer_token(&headers), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("Bearer ", None);
        check("Basic abc", None);
    }
}
