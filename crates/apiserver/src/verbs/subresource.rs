//! Handles subresources: status and similar ones are updates to a part of the object; the others are separate verbs.

use bytes::Bytes;
use homeostat_api::status::Status;

use super::{Answer, AuthorizedRequest, exec_attach_port_forward, get, log, patch, proxy, scale, update};
use crate::request::Verb;

/// Runs a request for a subresource.
pub(super) async fn handle_subresource(call: AuthorizedRequest, body: Bytes) -> Result<Answer, Status> {
    match (&*call.path.subresource, call.verb) {
        ("scale", _) => scale::handle_scale(&call, &body).await,
        ("binding" | "eviction", Verb::Create) => super::pod_actions::bind_or_evict(&call, &body).await,
        ("log", Verb::Get) => log::log(&call).await,
        ("proxy", _) if proxy::is_served(&call) => proxy::proxy(&call, body).await,
        ("exec" | "attach" | "portforward" | "proxy", _) => exec_attach_port_forward::connect(&call).await,
        ("log", _) => Err(exec_attach_port_forward::no_connection(&call)),
        (_, Verb::Get) => get::get(&call).await,
        (_, Verb::Update) => update::update(&call, &body).await,
        (_, Verb::Patch) => patch::patch(&call, &body).await,
        _ => Err(Status::method_not_allowed()),
    }
}
