//! Subresources: status and its kin are updates of a part of the object; the others are verbs of their own.

use bytes::Bytes;
use http::Method;

use super::{Answer, Call, get, patch, scale, update};
use crate::status::Status;

/// Runs a request for a subresource.
pub(super) async fn run(call: Call, method: &Method, body: Bytes) -> Result<Answer, Status> {
    match (&*call.path.subresource, method) {
        ("scale", _) => scale::run(&call, method, &body).await,
        ("binding" | "eviction", &Method::POST) => super::pod::run(&call, &body).await,
        ("log", &Method::GET) => super::log::log(&call).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => {
            get::get(&call)?;
            Err(Status::bad_request("this server offers no connections into Pods"))
        }
        (_, &Method::GET) => get::get(&call),
        (_, &Method::PUT) => update::update(&call, &body).await,
        (_, &Method::PATCH) => patch::patch(&call, &body).await,
        _ => Err(Status::method_not_allowed()),
    }
}
