//! The HTTP side of the documents: tags, redirects and what clients may keep.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Request;
use crate::body::Body;

/// How long a document may be kept under its hash: as good as for ever.
const KEPT: SignedDuration = SignedDuration::from_hours(365 * 24);

/// A document with its tag, rendered only if the client does not have it. `kept_from`: asked for by its hash.
pub(super) fn document(
    request: &Request<'_>,
    tag: &str,
    kept_from: Option<Timestamp>,
    render: impl FnOnce() -> Value,
) -> Response<Body> {
    let quoted = format!("\"{tag}\"");
    let mut answer = Response::builder().header(header::VARY, "Accept").header(header::ETAG, &quoted);
    if let Some(now) = kept_from {
        let expires = now.checked_add(KEPT).unwrap_or(Timestamp::MAX);
        let expires = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&expires);
        answer = answer.header(header::CACHE_CONTROL, "public, immutable");
        answer = answer.header(header::EXPIRES, expires.expect("times of this age can be printed"));
    }
    let answer = if request.if_none_match == Some(&quoted) {
        answer.status(StatusCode::NOT_MODIFIED).body(Body::Empty)
    } else {
        answer.header(header::CONTENT_TYPE, "application/json").body(encoded(&render()))
    };
    answer.expect("a hexadecimal tag is a valid header")
}

/// A small document without a tag.
pub(super) fn json(value: &Value) -> Response<Body> {
    let answer = Response::builder().header(header::CONTENT_TYPE, "application/json").body(encoded(value));
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

/// Only JSON is offered.
pub(super) fn not_acceptable() -> Response<Body> {
    bare(StatusCode::NOT_ACCEPTABLE)
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = status;
    answer
}

fn encoded(value: &Value) -> Body {
    Body::Full(Bytes::from(serde_json::to_vec(value).expect("JSON values can be written")))
}
