//! Implements `pods/proxy` and `services/proxy`: forwards a request to a port of a Pod, through the node that runs it.
//!
//! **Invariant:** the node connects only to a port on which a process of this very Pod listens, so that the proxy leads
//! nowhere else: neither to other ports on the machine nor to addresses that someone wrote into a Service.
//!
//! The caller needs permission for the request's verb on the subresource, as in Kubernetes; the name it is checked for
//! is the one in the path, with scheme and port. Pods that serve TLS cannot be reached.
//!
//! Large objects are read in the queue for expensive work ([`read_in_turn`]), and only what is needed of them is kept.
//! The forwarded request waits for other programs, so it must not hold a place in that queue.

use bytes::Bytes;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_store::{Entry, Snapshot};
use serde_json::{Value, json};

use super::log::node_unreachable;
use super::pipeline::admit_document;
use super::{Answer, AuthorizedRequest, text_cost};
use crate::admission::Operation;
use crate::expensive_requests::UserQueue;
use crate::stored::encode;
use crate::stored::service_slices::{ENDPOINTS_MAX, slices_of_service};
use crate::yielding_work::YieldingWork;

/// A name in a path: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
struct ProxyName<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> ProxyName<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts = text.split(':').collect::<Vec<_>>();
        let (scheme, name, port) = match *parts {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self { scheme, name, port })
    }
}

/// Returns whether the resource has a proxy here; Nodes have none, because there is no kubelet.
pub(super) fn is_served(call: &AuthorizedRequest) -> bool {
    [SERVICE.storage(), POD.storage()].contains(&call.resource.storage())
}

/// Forwards the request and returns the Pod's response.
pub(super) async fn proxy(call: &AuthorizedRequest, body: Bytes) -> Result<Answer, Status> {
    let proxied = call.proxied.as_ref().ok_or_else(Status::method_not_allowed)?;
    let mut options = json!({"kind": options_kind(call), "apiVersion": "v1"});
    if !proxied.rest.is_empty() {
        options["path"] = proxied.rest.as_str().into();
    }
    admit_document(call, Operation::Connect, &mut options, false).await?;
    let LocatedPod { uid, address, node, port } = locate(call).await?;
    if address.is_empty() || node.is_empty() {
        return Err(Status::bad_request("address not allowed"));
    }
    let Some(source) = call.backend.streams.get().filter(|source| source.is_of(&node)).cloned() else {
        return Err(node_unreachable(call, &node));
    };
    if let Some(response) = proxied.redirection() {
        return Ok(Answer::response(response));
    }
    let connection = source.forward(uid, port).await;
    let connection =
        connection.map_err(|why| Status::unavailable(format!("error trying to reach service: {why}")))?;
    let authority = format!("{address}:{port}");
    proxied.send(connection, &authority, (&call.headers, body)).await.map(Answer::response)
}

fn options_kind(call: &AuthorizedRequest) -> &str {
    call.resource.subresource(&call.path.subresource).map_or("", |part| &*part.kind)
}

/// A Pod, and the port that the path names.
struct LocatedPod {
    uid: String,
    address: String,
    node: String,
    port: u16,
}

impl LocatedPod {
    /// Returns the Pod with this port or, without one, the first that it declares.
    fn new(pod: &Value, port: Option<u16>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            uid: meta::uid(pod).to_owned(),
            address: text(&pod["status"]["podIP"]),
            node: text(&pod["spec"]["nodeName"]),
            port: port.unwrap_or_else(|| declared_port(pod)),
        }
    }
}

/// Parses a stored object and returns what `read` takes from it. A large one is parsed when it is the user's turn.
async fn read_in_turn<T>(queue: &UserQueue, entry: &Entry, read: impl FnOnce(&Value) -> T) -> T {
    let cost = text_cost(&entry.bytes);
    queue.run_when_permitted(cost, || read(&encode::parse_entry(entry))).await
}

/// Returns the Pod and the port that the path names.
async fn locate(call: &AuthorizedRequest) -> Result<LocatedPod, Status> {
    let is_service = call.resource.storage() == SERVICE.storage();
    let what = if is_service { "service" } else { "pod" };
    let id = &*call.path.name;
    let name =
        ProxyName::parse(id).ok_or_else(|| Status::bad_request(format!("invalid {what} request {id:?}")))?;
    if name.scheme == "https" {
        return Err(Status::bad_request("this server proxies to Pods over plain HTTP only"));
    }
    let snapshot = call.backend.store.snapshot();
    if is_service {
        locate_service(call, &snapshot, &name).await
    } else {
        locate_pod(call, &snapshot, &name).await
    }
}

async fn locate_pod(
    call: &AuthorizedRequest,
    snapshot: &Snapshot,
    name: &ProxyName<'_>,
) -> Result<LocatedPod, Status> {
    let entry = pod_entry(call, snapshot, name.name)
        .ok_or_else(|| Status::not_found(&call.resource.about(name.name)))?;
    let port = match name.port {
        "" => None,
        text => Some(parse_port(text).ok_or_else(|| {
            Status::unavailable(format!("error trying to reach service: lookup tcp/{text}: unknown port"))
        })?),
    };
    Ok(read_in_turn(&call.queue, entry, |pod| LocatedPod::new(pod, port)).await)
}

/// The default HTTP port, for Pods that do not declare one.
const HTTP_PORT: u16 = 80;

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

/// Returns the first port that a container of the Pod declares.
fn declared_port(pod: &Value) -> u16 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.filter_map(|container| container["ports"][0]["containerPort"].as_u64());
    ports.next().and_then(|port| u16::try_from(port).ok()).unwrap_or(HTTP_PORT)
}

fn pod_entry<'a>(call: &AuthorizedRequest, snapshot: &'a Snapshot, name: &str) -> Option<&'a Entry> {
    snapshot.get(&POD.storage().key(&call.path.namespace, name)).map(|entry| &**entry)
}

/// The maximum number of Pods that are looked up until one is found that matches its endpoint: each is parsed, and Pods
/// that do not match are gone.
const PODS_TRIED_MAX: u64 = 8;

/// A Pod that an EndpointSlice names.
struct NamedEndpoint {
    pod: String,
    uid: String,
    port: u16,
}

/// Returns a Pod behind a Service, and its port. Slices are read one by one, and only the chosen Pod is read, because a
/// user may write as many and as large objects as the namespace can hold.
async fn locate_service(
    call: &AuthorizedRequest,
    snapshot: &Snapshot,
    name: &ProxyName<'_>,
) -> Result<LocatedPod, Status> {
    let port_name = service_port_name(call, snapshot, name).await?;
    let (mut endpoints, mut work) = (Vec::new(), YieldingWork::default());
    for slice in slices_of_service(snapshot, &call.path.namespace, name.name) {
        if endpoints.len() >= ENDPOINTS_MAX {
            break;
        }
        work.add(slice.bytes.len()).await;
        let read = |slice: &Value| ready_endpoints(slice, &port_name);
        endpoints.extend(read_in_turn(&call.queue, &slice, read).await);
    }
    let count = endpoints.len() as u64;
    let first = if count == 0 { 0 } else { call.backend.entropy.below(count) };
    for step in 0..count.min(PODS_TRIED_MAX) {
        let at = usize::try_from((first + step) % count).unwrap_or_default();
        let endpoint = &endpoints[at];
        let Some(entry) = pod_entry(call, snapshot, &endpoint.pod) else { continue };
        let pod = read_in_turn(&call.queue, entry, |pod| LocatedPod::new(pod, Some(endpoint.port))).await;
        if pod.uid == endpoint.uid {
            return Ok(pod);
        }
    }
    Err(Status::unavailable(format!("no endpoints available for service {:?}", name.name)))
}

/// Returns the name of a Service's port, which the path gives as a name or a number.
async fn service_port_name(
    call: &AuthorizedRequest,
    snapshot: &Snapshot,
    name: &ProxyName<'_>,
) -> Result<String, Status> {
    let service = snapshot.get(&SERVICE.storage().key(&call.path.namespace, name.name));
    let service = service.ok_or_else(|| Status::not_found(&call.resource.about(name.name)))?;
    let Ok(number) = name.port.parse::<u64>() else { return Ok(name.port.to_owned()) };
    let port_name = |service: &Value| {
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let port = ports.find(|port| port["port"].as_u64() == Some(number))?;
        Some(port["name"].as_str().unwrap_or_default().to_owned())
    };
    read_in_turn(&call.queue, service, port_name).await.ok_or_else(|| {
        Status::unavailable(format!("no service port {number} found for service {:?}", name.name))
    })
}

/// Returns the ready Pods in a slice, with the port that has this name. Addresses that do not belong to a Pod are left
/// out: whoever may write slices must not be able to direct this server elsewhere.
fn ready_endpoints(slice: &Value, port_name: &str) -> Vec<NamedEndpoint> {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
    let Some(port) = port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok()) else {
        return Vec::new();
    };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let pods = ready.filter(|endpoint| endpoint["targetRef"]["kind"] == "Pod").filter_map(|endpoint| {
        let target = &endpoint["targetRef"];
        Some(NamedEndpoint {
            pod: target["name"].as_str()?.to_owned(),
            uid: target["uid"].as_str()?.to_owned(),
            port,
        })
    });
    pods.collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use homeostat_core::Revision;

    use super::*;
    use crate::auth::Identity;
    use crate::expensive_requests::{EXPENSIVE_BYTES, ExpensiveRequests, RequestCost};

    fn pod_with(bytes: usize) -> Entry {
        let object = json!({"metadata": {"name": "p", "uid": "u", "annotations": {"a": "x".repeat(bytes)}}});
        let value = homeostat_store::Value::plain(object.to_string());
        Entry::new(POD.storage().key("default", "p"), Revision::new(1), &value)
    }

    #[tokio::test]
    async fn a_large_pod_is_read_when_it_is_the_users_turn_and_forwarding_holds_no_place() {
        let (requests, jane) =
            (ExpensiveRequests::new(), Identity { name: "jane".into(), ..Identity::default() });
        let queue = requests.user_queue(&jane);
        let (large, small) = (pod_with(EXPENSIVE_BYTES), pod_with(0));
        let cost = RequestCost { bytes: EXPENSIVE_BYTES, memory: 0 };
        let mut running = Box::pin(requests.run(cost, &jane, std::future::pending::<()>()));
        assert!(running.as_mut().now_or_never().is_none());

        let uid = |pod: &Value| LocatedPod::new(pod, None).uid;
        assert_eq!(read_in_turn(&queue, &small, uid).now_or_never().as_deref(), Some("u"));
        let mut read = Box::pin(read_in_turn(&queue, &large, uid));
        assert!(read.as_mut().now_or_never().is_none(), "another expensive request of the user runs");
        drop(running);
        assert_eq!(read.now_or_never().as_deref(), Some("u"));
        let next = requests.run(cost, &jane, std::future::ready(())).now_or_never();
        assert!(next.is_some(), "the place is free again once the Pod is located");
    }

    #[test]
    fn names_have_a_scheme_and_a_port_as_in_kubernetes() {
        let check = |text: &str, expected: Option<(&str, &str, &str)>| {
            let found = ProxyName::parse(text).map(|name| (name.scheme, name.name, name.port));
            assert_eq!(found, expected, "{text}");
        };
        check("web", Some(("", "web", "")));
        check("web:80", Some(("", "web", "80")));
        check("http:web:admin", Some(("http", "web", "admin")));
        check("https:web:", Some(("https", "web", "")));
        check("ftp:web:21", None);
        check(":80", None);
        check("a:b:c:d", None);
    }
}
