//! Implements the HTTP side of the documents: entity tags, redirects and caching.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::OpenApiRequest;

/// How long clients may cache a document under its hash: practically forever.
const KEPT: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The encoding of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentEncoding {
    Json,
    Protobuf,
}

impl DocumentEncoding {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        }
    }
}

/// Returns a document with its entity tag, which is rendered only if the client does not have it yet.
pub(super) fn document(
    request: &OpenApiRequest<'_>,
    tag: &str,
    kind: DocumentEncoding,
    render: impl FnOnce() -> Bytes,
) -> Response<Bytes> {
    let quoted = format!("\"{tag}\"");
    let answer = Response::builder().header(header::VARY, "Accept").header(header::ETAG, &quoted);
    let answer = if request.if_none_match == Some(&quoted) {
        answer.status(StatusCode::NOT_MODIFIED).body(Bytes::new())
    } else {
        answer.header(header::CONTENT_TYPE, kind.content_type()).body(render())
    };
    answer.expect("a hexadecimal tag is a valid header")
}

/// Marks the response to a request that names the hash as cacheable.
pub(super) fn kept(mut answer: Response<Bytes>, now: Timestamp) -> Response<Bytes> {
    let expires = now.checked_add(KEPT).unwrap_or(Timestamp::MAX);
    let expires = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&expires);
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    if let Some(expires) = expires.ok().and_then(|expires| HeaderValue::try_from(expires).ok()) {
        headers.insert(header::EXPIRES, expires);
    }
    answer
}

/// Returns the index, without an entity tag. It is JSON; kube-apiserver calls it plain text.
pub(super) fn index(value: &Value) -> Response<Bytes> {
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(Bytes::from(value.to_string()));
    answer.expect("constant headers are valid")
}

/// Redirects to the document's current hash.
pub(super) fn moved(url: &str) -> Response<Bytes> {
    let answer = Response::builder().status(StatusCode::MOVED_PERMANENTLY).header(header::LOCATION, url);
    answer.body(Bytes::new()).expect("our own URLs are valid headers")
}

/// Returns a 404 with an empty body, as kube-apiserver does.
pub(super) fn not_found() -> Response<Bytes> {
    bare(StatusCode::NOT_FOUND)
}

/// Returns a 406 if none of the requested media types is offered.
pub(super) fn not_acceptable() -> Response<Bytes> {
    bare(StatusCode::NOT_ACCEPTABLE)
}

fn bare(status: StatusCode) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer
}
