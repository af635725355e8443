//! The HTTP side of the documents: tags, redirects and what clients may keep.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Request;
use crate::body::Body;

/// How long a document may be kept under its hash: as good as for ever.
const KEPT: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The encoding of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Json,
    Protobuf,
}

impl Kind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        }
    }
}

/// A document with its tag, rendered only if the client does not have it.
pub(super) fn document(
    request: &Request<'_>,
    tag: &str,
    kind: Kind,
    render: impl FnOnce() -> Bytes,
) -> Response<Body> {
    let quoted = format!("\"{tag}\"");
    let answer = Response::builder().header(header::VARY, "Accept").header(header::ETAG, &quoted);
    let answer = if request.if_none_match == Some(&quoted) {
        answer.status(StatusCode::NOT_MODIFIED).body(Body::Empty)
    } else {
        answer.header(header::CONTENT_TYPE, kind.content_type()).body(Body::Full(render()))
    };
    answer.expect("a hexadecimal tag is a valid header")
}

/// Says that the answer, asked for by its hash, may be kept.
pub(super) fn kept(mut answer: Response<Body>, now: Timestamp) -> Response<Body> {
    let expires = now.checked_add(KEPT).unwrap_or(Timestamp::MAX);
    let expires = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&expires);
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    if let Some(expires) = expires.ok().and_then(|expires| HeaderValue::try_from(expires).ok()) {
        headers.insert(header::EXPIRES, expires);
    }
    answer
}

/// A small document without a tag.
pub(super) fn json(value: &Value) -> Response<Body> {
    let answer =
        Response::builder().header(header::CONTENT_TYPE, "application/json").body(value.to_string().into());
    answer.expect("constant headers are valid")
}

/// The document has another hash by now.
pub(super) fn moved(url: &str) -> Response<Body> {
    let answer = Response::builder().status(StatusCode::MOVED_PERMANENTLY).header(header::LOCATION, url);
    answer.body(Body::Empty).expect("our own URLs are valid headers")
}

/// No such document; the body is empty, as kube-apiserver's is.
pub(super) fn not_found() -> Response<Body> {
    bare(StatusCode::NOT_FOUND)
}

/// Nothing of what is asked for is offered.
pub(super) fn not_acceptable() -> Response<Body> {
    bare(StatusCode::NOT_ACCEPTABLE)
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = status;
    answer
}
