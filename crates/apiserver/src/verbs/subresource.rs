//! Subresources: status and the like are updates of a part of the object; the others are verbs of their own.

use bytes::Bytes;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::pipeline::admit_document;
use super::{Answer, Call, get, log, patch, scale, update};
use crate::admission::Operation;
use crate::request::Verb;
use crate::stored::encode;

/// Runs a request for a subresource.
pub(super) async fn handle_subresource(call: Call, body: Bytes) -> Result<Answer, Status> {
    match (&*call.path.subresource, call.verb) {
        ("scale", _) => scale::handle_scale(&call, &body).await,
        ("binding" | "eviction", Verb::Create) => super::pod_actions::bind_or_evict(&call, &body).await,
        ("log", Verb::Get) => log::log(&call).await,
        ("exec" | "attach" | "portforward" | "proxy", _) => {
            admit_document(&call, Operation::Connect, &mut connect_options(&call), false).await?;
            Err(no_connection(&call))
        }
        ("log", _) => Err(no_connection(&call)),
        (_, Verb::Get) => get::get(&call),
        (_, Verb::Update) => update::update(&call, &body).await,
        (_, Verb::Patch) => patch::patch(&call, &body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Returns the options of a connection as plugins see them.
fn connect_options(call: &Call) -> Value {
    let kind = call.resource.subresource(&call.path.subresource).map_or("", |part| &*part.kind);
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if call.query.flag(flag) {
            options[flag] = true.into();
        }
    }
    if let Some(container) = call.query.value("container") {
        options["container"] = container.into();
    }
    let command = call.query.all("command").map(Value::from).collect::<Vec<_>>();
    if !command.is_empty() {
        options["command"] = command.into();
    }
    options
}

/// Returns why there is no connection into this Pod: what Kubernetes would check before it opens one, otherwise that
/// this server opens none.
fn no_connection(call: &Call) -> Status {
    let snapshot = call.backend.store.snapshot();
    let Some(entry) = snapshot.get(&call.key()) else { return call.not_found() };
    let (pod, kind) = (encode::decode(entry), &*call.path.subresource);
    // Nodes and Services also have a proxy; the other subresources are those of Pods.
    if kind != "proxy" {
        if let ("exec" | "attach", Err(refusal)) = (kind, log::requested_container(call, &pod)) {
            return refusal;
        }
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            return Status::bad_request(format!("pod {} does not have a host assigned", call.path.name));
        }
    }
    Status::bad_request(match (kind, pod["status"]["podIP"].as_str()) {
        ("portforward", Some(address)) => format!("{}, at {address}", advice_instead(kind)),
        _ => advice_instead(kind).to_owned(),
    })
}

/// Returns the advice to give instead of a connection into a Pod, since Pods are processes of a reachable machine.
fn advice_instead(part: &str) -> &'static str {
    match part {
        "exec" => {
            "this server does not run commands in containers: they are processes of its machine, so run the command there, with \
             their view of the files, by `nsenter --target PID --mount COMMAND`; PID is in the Pod's containerID, process://PID"
        }
        "attach" | "log" => "this server does not attach to containers: `kubectl logs -f` shows their output",
        "portforward" => {
            "this server does not forward ports: Pods are processes of its machine, so their ports are open there already"
        }
        _ => "this server does not proxy to Pods and Services: their ports are open on its machine",
    }
}
