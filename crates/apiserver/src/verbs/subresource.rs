//! Subresources: status and its kin are updates of a part of the object; the others are verbs of their own.

use bytes::Bytes;

use super::{Answer, Call, get, log, patch, scale, update};
use crate::object::encode;
use crate::request::Verb;
use crate::status::Status;

/// Runs a request for a subresource.
pub(super) async fn run(call: Call, body: Bytes) -> Result<Answer, Status> {
    match (&*call.path.subresource, call.verb) {
        ("scale", _) => scale::run(&call, &body).await,
        ("binding" | "eviction", Verb::Create) => super::pod::run(&call, &body).await,
        ("log", Verb::Get) => log::log(&call).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => Err(no_connection(&call)),
        (_, Verb::Get) => get::get(&call),
        (_, Verb::Update) => update::update(&call, &body).await,
        (_, Verb::Patch) => patch::patch(&call, &body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Why there is no connection into this Pod: what Kubernetes would say before it opens one, else that nobody opens any.
fn no_connection(call: &Call) -> Status {
    let snapshot = call.backend.store.snapshot();
    let Some(entry) = snapshot.get(&call.key()) else { return call.not_found() };
    let (pod, kind) = (encode::decode(entry), &*call.path.subresource);
    // Nodes and Services have a proxy, too; the others are of Pods.
    if kind != "proxy" {
        if let ("exec" | "attach", Err(refusal)) = (kind, log::container(call, &pod)) {
            return refusal;
        }
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            return Status::bad_request(format!("pod {} does not have a host assigned", call.path.name));
        }
    }
    Status::bad_request(match (kind, pod["status"]["podIP"].as_str()) {
        ("portforward", Some(address)) => format!("{}, at {address}", instead(kind)),
        _ => instead(kind).to_owned(),
    })
}

/// Connections into Pods are not offered; what to do instead, since Pods are processes of a machine one can reach.
fn instead(part: &str) -> &'static str {
    match part {
        "exec" => {
            "this server runs no commands in containers: they are processes of its machine, so run it there, with their view \
             of the files by `nsenter --target PID --mount COMMAND`; PID is in the Pod's containerID, process://PID"
        }
        "attach" | "log" => "this server attaches to no containers: `kubectl logs -f` shows what they say",
        "portforward" => {
            "this server forwards no ports: Pods are processes of its machine, so their ports are open there already"
        }
        _ => "this server is no proxy to Pods and Services: their ports are open on its machine",
    }
}
