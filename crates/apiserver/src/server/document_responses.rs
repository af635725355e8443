//! Creates responses for paths that are not resources: plain text and JSON documents, and the cost of producing them.
//!
//! The server decides which document belongs to which path; nothing in this module reads the store.

use std::fmt::Display;

use homeostat_api::negotiate;
use homeostat_api::openapi;
use homeostat_api::status::Status;
use http::request::Parts;
use http::{HeaderValue, Response, header};

use crate::body::Body;
use crate::expensive_requests::{EXPENSIVE_BYTES, RequestCost};
use crate::health;
use crate::request::accept_headers;
use crate::verbs::Answer;

/// Returns whether Kubernetes serves the document only for GET, not even for HEAD: the versions of groups and of the
/// server, and the token keys. The list of groups and the documents about a whole group are served for any method.
pub(super) fn answers_get_only(path: &str) -> bool {
    match path.trim_matches('/').split('/').next() {
        Some("api" | "version" | "openid" | ".well-known") => true,
        Some("apis") => path.trim_matches('/').split('/').count() > 2,
        _ => false,
    }
}

pub(super) fn text_response(code: u16, text: impl Display) -> Response<Body> {
    let body = text.to_string().into();
    let mut response = Answer::body(code, "text/plain; charset=utf-8", body).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Serves `/version`, which is only served as JSON.
pub(super) fn version_response(parts: &Parts) -> Result<Response<Body>, Status> {
    if !negotiate::prefers(accept_headers(parts).accept, "json") {
        return Err(Status::not_routable("application/json"));
    }
    Ok(json_response(&health::version()))
}

pub(super) fn json_response(value: &serde_json::Value) -> Response<Body> {
    Answer::body(200, "application/json", value.to_string().into()).into_response()
}

/// Returns the cost of an OpenAPI document. Building a document is expensive, but sending a finished one is not.
pub(super) fn document_cost(documents: &openapi::OpenApiDocuments, path: &str) -> RequestCost {
    if documents.is_made(path) {
        RequestCost::default()
    } else {
        RequestCost { bytes: EXPENSIVE_BYTES, memory: 0 }
    }
}
