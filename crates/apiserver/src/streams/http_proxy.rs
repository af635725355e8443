//! Forwards one HTTP request over a connection to a Pod, and its response back.
//!
//! **Invariants:** the caller's credentials and the headers that belong to one connection are never forwarded, in
//! either direction. An interrupted response ends with an error, so that a client never mistakes a part for the whole.
//! Memory is bounded: a piece of the response is read only when the client has taken the previous one.
//!
//! Other protocols over the same connection (`Upgrade`) are not supported, and links in HTML pages are not rewritten.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use homeostat_api::status::Status;
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::ByteStream;
use super::websocket::handshake::header_words;
use crate::body::{Body, BrokenAnswer};

/// How long a Pod may take to begin its response: as long as the slowest other request to this server.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// How long a response may take: as long as a watch.
const ANSWER_TIME: Duration = Duration::from_secs(30 * 60);

/// The path characters that are sent unescaped, as Go writes them.
const PATH_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Headers that belong to one connection (RFC 9110, section 7.6.1), and those that Go's proxy drops with them.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that tell this server about the caller and do not concern the Pod.
const CALLER_HEADERS: [&str; 2] = ["authorization", "sec-websocket-protocol"];

/// The prefix of the headers with which a caller acts as someone else.
const IMPERSONATION_PREFIX: &str = "impersonate-";

/// Headers in a Pod's response that would grant other sites access to this server.
const CROSS_ORIGIN_HEADERS: [&str; 5] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
];

/// A request to be forwarded, in its original form.
pub(crate) struct ProxiedRequest {
    pub(crate) method: Method,
    /// The path on this server up to and including `/proxy`, decoded.
    pub(crate) prefix: String,
    /// The path below it, decoded: empty, or with a leading slash.
    pub(crate) rest: String,
    pub(crate) query: Option<String>,
    /// The host by which the client knows this server.
    pub(crate) host: String,
    pub(crate) client: Option<IpAddr>,
}

impl ProxiedRequest {
    /// Returns the redirect for a request without a path, so that relative links on the page lead below it.
    pub(crate) fn redirection(&self) -> Option<Response<Body>> {
        if !self.rest.is_empty() || !matches!(self.method, Method::GET | Method::HEAD) {
            return None;
        }
        let query = self.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        let location = format!("{}/{query}", escape_path(&self.prefix));
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
        Some(response)
    }

    /// Sends the request over the connection, and returns the response. `authority` names the Pod, such as
    /// `10.0.0.1:80`.
    pub(crate) async fn send(
        &self,
        connection: Box<dyn ByteStream>,
        authority: &str,
        (headers, body): (&HeaderMap, Bytes),
    ) -> Result<Response<Body>, Status> {
        let request = self
            .forwarded_request(headers, body)
            .map_err(|error| Status::bad_request(format!("the request cannot be forwarded: {error}")))?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
            let driver = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
            Ok::<_, hyper::Error>((sender.send_request(request).await?, driver))
        };
        let unreachable = |why: &dyn std::fmt::Display| {
            Status::unavailable(format!("error trying to reach service: {why}"))
        };
        match timeout(HEAD_TIME, exchange).await {
            Ok(Ok((response, driver))) => Ok(self.answer(response, driver, authority)),
            Ok(Err(error)) if error.is_incomplete_message() => Err(unreachable(&"EOF")),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(unreachable(&format!("no answer within {} s", HEAD_TIME.as_secs()))),
        }
    }

    fn forwarded_request(
        &self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let path = escape_path(&self.rest);
        let path = if path.is_empty() { "/" } else { &path };
        let target = match &self.query {
            Some(query) => PathAndQuery::try_from(format!("{path}?{query}"))?,
            None => PathAndQuery::try_from(path)?,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        let mut forwarded = forwarded_headers(headers);
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                forwarded.insert(HeaderName::from_static(name), value);
            }
        };
        set("host", &self.host);
        set("x-forwarded-uri", &format!("{}{path}", escape_path(&self.prefix)));
        set("x-forwarded-host", &self.host);
        set("x-forwarded-proto", "https");
        if let Some(client) = self.client {
            let name = HeaderName::from_static("x-forwarded-for");
            let before = header_words(headers, &name);
            let all: Vec<String> = before.map(ToOwned::to_owned).chain([client.to_string()]).collect();
            set("x-forwarded-for", &all.join(", "));
        }
        *request.headers_mut() = forwarded;
        Ok(request)
    }

    fn answer(
        &self,
        response: Response<Incoming>,
        driver: AbortOnDropHandle<()>,
        authority: &str,
    ) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        for name in CROSS_ORIGIN_HEADERS {
            head.headers.remove(name);
        }
        if let Some(location) = head.headers.get(header::LOCATION).and_then(|value| value.to_str().ok())
            && let Some(location) = self.rewritten_location(location, authority)
            && let Ok(value) = HeaderValue::from_str(&location)
        {
            head.headers.insert(header::LOCATION, value);
        }
        let pieces = AnswerPieces { body, deadline: Instant::now() + ANSWER_TIME, _driver: driver };
        let pieces = futures::stream::unfold(Some(pieces), AnswerPieces::next);
        Response::from_parts(head, Body::Proxied(Box::pin(pieces)))
    }

    /// Returns the target of a redirect as clients of this server see it; `None` if it needs no change.
    fn rewritten_location(&self, location: &str, authority: &str) -> Option<String> {
        let uri = location.parse::<Uri>().ok()?;
        let host = uri.authority().map(http::uri::Authority::as_str);
        let is_elsewhere = host.is_some_and(|host| host != authority && host != self.host);
        let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let prefix = escape_path(&self.prefix);
        if is_elsewhere || !(location.starts_with('/') || host.is_some()) || target.starts_with(&prefix) {
            return None;
        }
        Some(format!("https://{}{prefix}{target}", self.host))
    }
}

/// The body of a Pod's response, with the connection it arrives on.
struct AnswerPieces {
    body: Incoming,
    deadline: Instant,
    _driver: AbortOnDropHandle<()>,
}

impl AnswerPieces {
    async fn next(pieces: Option<Self>) -> Option<(Result<Bytes, BrokenAnswer>, Option<Self>)> {
        let mut pieces = pieces?;
        loop {
            let frame = timeout_at(pieces.deadline, pieces.body.frame()).await;
            match frame {
                // Trailers are not forwarded.
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Some((Ok(bytes), Some(pieces)));
                    }
                }
                Ok(Some(Err(error))) => return Some((Err(BrokenAnswer::new(&error)), None)),
                Ok(None) => return None,
                Err(late) => return Some((Err(BrokenAnswer::new(&late)), None)),
            }
        }
    }
}

/// Returns a decoded path in the form used in requests.
fn escape_path(path: &str) -> String {
    utf8_percent_encode(path, PATH_CHARACTERS).to_string()
}

/// Returns the headers that the Pod gets.
fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = headers.clone();
    remove_hop_by_hop(&mut forwarded);
    for name in CALLER_HEADERS {
        forwarded.remove(name);
    }
    let impersonation: Vec<HeaderName> =
        forwarded.keys().filter(|name| name.as_str().starts_with(IMPERSONATION_PREFIX)).cloned().collect();
    for name in impersonation {
        forwarded.remove(name);
    }
    // The body was read as a whole; its length is written again.
    forwarded.remove(header::CONTENT_LENGTH);
    forwarded
}

/// Removes the headers that belong to one connection, and those that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        header_words(headers, &header::CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rest: &str) -> ProxiedRequest {
        ProxiedRequest {
            method: Method::GET,
            prefix: "/api/v1/namespaces/a/pods/web:80/proxy".into(),
            rest: rest.into(),
            query: Some("a=1".into()),
            host: "server:6443".into(),
            client: Some([10, 0, 0, 9].into()),
        }
    }

    #[test]
    fn credentials_and_headers_of_the_connection_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-scopes", "x"),
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("x-forwarded-for", "10.0.0.1"),
            ("content-length", "7"),
            ("accept", "text/html"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let sent = request("/a b/\u{e9}").forwarded_request(&headers, Bytes::new()).unwrap();
        assert_eq!(sent.uri().to_string(), "/a%20b/%C3%A9?a=1");
        let mut sent: Vec<String> = sent
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        sent.sort();
        let expected = [
            "accept: text/html",
            "host: server:6443",
            "x-forwarded-for: 10.0.0.1, 10.0.0.9",
            "x-forwarded-host: server:6443",
            "x-forwarded-proto: https",
            "x-forwarded-uri: /api/v1/namespaces/a/pods/web:80/proxy/a%20b/%C3%A9",
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn redirections_lead_through_the_proxy_unless_they_lead_elsewhere() {
        let check = |location: &str, expected: Option<&str>| {
            let found = request("/").rewritten_location(location, "127.1.2.3:80");
            assert_eq!(found.as_deref(), expected, "{location}");
        };
        let prefix = "https://server:6443/api/v1/namespaces/a/pods/web:80/proxy";
        check("/login?x=1", Some(&format!("{prefix}/login?x=1")));
        check("http://127.1.2.3:80/login", Some(&format!("{prefix}/login")));
        check("https://server:6443/login", Some(&format!("{prefix}/login")));
        check("https://example.com/login", None);
        check("login", None);
        check("/api/v1/namespaces/a/pods/web:80/proxy/x", None);
    }

    #[test]
    fn a_page_without_a_path_is_redirected_below_itself() {
        let location = |rest: &str, method: Method| {
            let response = ProxiedRequest { method, ..request(rest) }.redirection()?;
            assert_eq!(response.status(), 301);
            Some(response.headers()[header::LOCATION].to_str().unwrap().to_owned())
        };
        let expected = "/api/v1/namespaces/a/pods/web:80/proxy/?a=1";
        assert_eq!(location("", Method::GET).as_deref(), Some(expected));
        assert_eq!(location("", Method::HEAD).as_deref(), Some(expected));
        assert_eq!(location("", Method::POST), None);
        assert_eq!(location("/", Method::GET), None);
    }
}
