//! Implements `pods/exec`, `pods/attach` and `pods/portforward`: finds the container, checks the options as Kubernetes
//! does, then connects the client to the node that runs the Pod.
//!
//! **Invariant:** a connection requires the permission to `create` the subresource, regardless of the method that
//! opens it: a WebSocket is opened with GET, and the permission to read must not be enough to run commands.

use std::sync::Arc;

use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::container_stream::{StreamOptions, StreamRefusal, StreamRequest};
use serde_json::{Value, json};

use super::log::{node_unreachable, requested_container};
use super::pipeline::admit_document;
use super::{Answer, AuthorizedRequest};
use crate::admission::Operation;
use crate::request::Verb;
use crate::stored::encode;
use crate::streams::exec_channels::{self, ChannelProtocol};
use crate::streams::port_forward::{self, PortConnector};
use crate::streams::upgrade::Upgrade;
use crate::streams::websocket::handshake;

/// Handles a request for a connection to a Pod.
pub(super) async fn connect(call: &AuthorizedRequest) -> Result<Answer, Status> {
    admit_document(call, Operation::Connect, &mut connect_options(call), false).await?;
    let subresource = &*call.path.subresource;
    if matches!(subresource, "exec" | "attach" | "portforward") && call.verb == Verb::Get {
        call.check_may_create()?;
    }
    match subresource {
        "exec" | "attach" => open_stream(call).await,
        "portforward" => forward_ports(call),
        _ => Err(no_connection(call)),
    }
}

/// Connects to a container.
async fn open_stream(call: &AuthorizedRequest) -> Result<Answer, Status> {
    let pod = load_pod(call)?;
    let container = requested_container(call, &pod)?;
    let node = assigned_node(call, &pod)?;
    let Some(source) = call.backend.streams.get().filter(|source| source.is_of(node)) else {
        return Err(node_unreachable(call, node));
    };
    let streams = stream_options(call)?;
    if !call.can_upgrade || !handshake::is_websocket(&call.headers) {
        return Err(Status::bad_request("Upgrade request required".to_owned()));
    }
    let name = match handshake::choose_protocol(&call.headers, &ChannelProtocol::names()) {
        Ok(name) => name,
        Err(words) => return Ok(Answer::body(403, "text/plain; charset=utf-8", words.into())),
    };
    let (Some(protocol), Some(response)) =
        (ChannelProtocol::named(name), handshake::accept(&call.headers, name))
    else {
        return Err(Status::bad_request("the WebSocket handshake is not complete".to_owned()));
    };
    let command =
        (call.path.subresource == "exec").then(|| call.query.all("command").map(ToOwned::to_owned).collect());
    let request =
        StreamRequest { pod: meta::uid(&pod).into(), container: container.clone(), command, streams };
    let stream = match source.open(request).await {
        Ok(stream) => stream,
        Err(refusal) => return Ok(refusal_answer(&container, &refusal)),
    };
    let response = Upgrade::attach(response, move |connection| {
        Box::pin(exec_channels::run(connection, stream, protocol, streams))
    });
    Ok(Answer::response(response))
}

/// Connects to ports of the Pod; the client names them later.
fn forward_ports(call: &AuthorizedRequest) -> Result<Answer, Status> {
    let pod = load_pod(call)?;
    let node = assigned_node(call, &pod)?;
    let Some(source) = call.backend.streams.get().filter(|source| source.is_of(node)).cloned() else {
        return Err(node_unreachable(call, node));
    };
    if !call.can_upgrade || !handshake::is_websocket(&call.headers) {
        return Err(Status::bad_request("Upgrade request required".to_owned()));
    }
    if let Err(words) = handshake::choose_protocol(&call.headers, &[port_forward::PROTOCOL]) {
        return Ok(Answer::body(403, "text/plain; charset=utf-8", words.into()));
    }
    let Some(response) = handshake::accept(&call.headers, port_forward::PROTOCOL) else {
        return Err(Status::bad_request("the WebSocket handshake is not complete".to_owned()));
    };
    let (uid, name) = (meta::uid(&pod).to_owned(), call.path.name.clone());
    let connector: PortConnector = Arc::new(move |port| {
        let words = format!("error forwarding port {port} to pod {name}, uid {uid}");
        let connecting = source.forward(uid.clone(), port);
        Box::pin(async move { connecting.await.map_err(|why| format!("{words}: {why}")) })
    });
    Ok(Answer::response(Upgrade::attach(response, |connection| {
        Box::pin(port_forward::run(connection, connector))
    })))
}

/// Returns the requested streams, or a refusal with the kubelet's wording.
fn stream_options(call: &AuthorizedRequest) -> Result<StreamOptions, Status> {
    let flag = |name: &'static str| call.query.flag(name);
    let tty = flag("tty");
    // A terminal has one output.
    let streams =
        StreamOptions { stdin: flag("stdin"), stdout: flag("stdout"), stderr: flag("stderr") && !tty, tty };
    if call.path.subresource == "exec" && call.query.all("command").next().is_none() {
        return Err(Status::bad_request("you must specify at least 1 command for the exec".to_owned()));
    }
    if !(streams.stdin || streams.stdout || streams.stderr) {
        return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
    }
    Ok(streams)
}

/// Responds with the kubelet's wording, which clients show after "unable to upgrade connection".
fn refusal_answer(container: &str, refusal: &StreamRefusal) -> Answer {
    let words = match refusal {
        StreamRefusal::NotRunning => format!("container not found (\"{container}\")"),
        StreamRefusal::Failed(why) => why.clone(),
    };
    Answer::body(500, "text/plain; charset=utf-8", words.into())
}

fn load_pod(call: &AuthorizedRequest) -> Result<Value, Status> {
    let snapshot = call.backend.store.snapshot();
    Ok(encode::parse_entry(snapshot.get(&call.key()).ok_or_else(|| call.not_found())?))
}

/// Returns the node that the Pod is bound to.
fn assigned_node<'a>(call: &AuthorizedRequest, pod: &'a Value) -> Result<&'a str, Status> {
    pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
        .ok_or_else(|| Status::bad_request(format!("pod {} does not have a host assigned", call.path.name)))
}
/// Returns the options of a connection, as plugins see them.
fn connect_options(call: &AuthorizedRequest) -> Value {
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

/// Returns why there is no connection: the error that Kubernetes would find before it opens one, or else that this
/// server does not support this type of connection.
pub(super) fn no_connection(call: &AuthorizedRequest) -> Status {
    let pod = match load_pod(call) {
        Ok(pod) => pod,
        Err(refusal) => return refusal,
    };
    let kind = &*call.path.subresource;
    // Nodes and Services also have a proxy; the other subresources belong to Pods.
    if kind != "proxy"
        && let Err(refusal) = assigned_node(call, &pod)
    {
        return refusal;
    }
    Status::bad_request(advice_instead(kind).to_owned())
}

/// Returns advice on what to do instead of connecting to a Pod, given that Pods are processes on a reachable machine.
fn advice_instead(part: &str) -> &'static str {
    match part {
        "log" => {
            "this server does not attach to containers by their log: `kubectl logs -f` shows their output"
        }
        _ => {
            "this server has no kubelet to proxy to: `kubectl logs`, `exec` and `port-forward` reach the Pods of its node"
        }
    }
}
