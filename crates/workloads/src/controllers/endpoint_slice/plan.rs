//! Decides which EndpointSlices a Service should have. This module is pure.
//!
//! Endpoints stay in the slice they are in; new ones go where there is room, then into new slices. A Pod that comes or
//! goes therefore changes one slice. A Service without Pods keeps an empty slice, which shows that it is managed.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::controllers::partial_pod::PartialPod;

/// The maximum number of endpoints in one slice: the same as in Kubernetes.
const ENDPOINTS_MAX: usize = 100;

/// Endpoints of one address family with the same ports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EndpointGroup {
    pub(super) address_type: String,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A change to the slices.
#[derive(Debug, PartialEq)]
pub(super) enum SliceChange<'a> {
    Create(EndpointGroup),
    Update(&'a EndpointSlice, EndpointGroup),
    Delete(&'a EndpointSlice),
}

/// Returns the groups that a Service needs for these Pods, with an empty group for each address family without Pods.
pub(super) fn endpoint_groups(service: &Service, pods: &[Arc<PartialPod>]) -> Vec<EndpointGroup> {
    let mut groups: Vec<EndpointGroup> = Vec::new();
    for address_type in families(service) {
        let before = groups.len();
        for pod in pods.iter().filter(|pod| !pod.is_finished()) {
            let Some(address) = address(pod, &address_type) else { continue };
            let (ports, endpoint) = (ports(service, pod), endpoint(service, pod, address));
            let same = groups[before..].iter_mut().find(|group| group.ports == ports);
            match same {
                Some(group) => group.endpoints.push(endpoint),
                None => groups.push(EndpointGroup {
                    address_type: address_type.clone(),
                    ports,
                    endpoints: vec![endpoint],
                }),
            }
        }
        if groups.len() == before {
            groups.push(EndpointGroup { address_type, ports: Vec::new(), endpoints: Vec::new() });
        }
    }
    groups
}

fn families(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if families.is_empty() { vec!["IPv4".to_owned()] } else { families }
}

fn address(pod: &PartialPod, address_type: &str) -> Option<String> {
    let known = pod.status.pod_ips.iter().map(|one| one.ip.as_str());
    let all = known.chain(pod.status.pod_ip.as_deref());
    let is_meant = |text: &&str| text.contains(':') == (address_type == "IPv6") && !text.is_empty();
    all.filter(is_meant).map(str::to_owned).next()
}

/// Returns a Service's ports, resolved to this Pod's port numbers.
fn ports(service: &Service, pod: &PartialPod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let resolved = ports.iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(target_port(port, pod)?),
            protocol: Some(protocol(port.protocol.as_ref())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    resolved.collect()
}

fn protocol(written: Option<&String>) -> String {
    written.cloned().unwrap_or_else(|| "TCP".to_owned())
}

fn target_port(port: &ServicePort, pod: &PartialPod) -> Option<i32> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let all = pod.spec.containers.iter().flat_map(|container| &container.ports);
            let mut named = all.filter(|one| one.name.as_ref() == Some(name));
            let is_same = |one: &&crate::controllers::partial_pod::PartialPort| {
                protocol(one.protocol.as_ref()) == protocol(port.protocol.as_ref())
            };
            named.find(is_same).map(|one| one.number)
        }
    }
}

fn endpoint(service: &Service, pod: &PartialPod, address: String) -> Endpoint {
    let publishes_all =
        service.spec.as_ref().is_some_and(|spec| spec.publish_not_ready_addresses == Some(true));
    let is_serving = pod.is_ready();
    let is_named = pod.spec.subdomain.is_some() && pod.spec.subdomain == service.metadata.name;
    Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all || (is_serving && !pod.is_dying())),
            serving: Some(is_serving),
            terminating: Some(pod.is_dying()),
        }),
        hostname: pod.spec.hostname.clone().filter(|_| is_named),
        node_name: pod.spec.node_name.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

/// Returns the changes that turn the existing slices into these groups. Slices that need no change are left out.
pub(super) fn slice_changes(existing: &[EndpointSlice], groups: Vec<EndpointGroup>) -> Vec<SliceChange<'_>> {
    let mut changes = Vec::new();
    let mut kept = Vec::new();
    for group in groups {
        let (same, rest): (Vec<_>, Vec<_>) = existing
            .iter()
            .filter(|slice| !kept.contains(&slice.metadata.uid.as_ref()))
            .partition(|slice| has_group_ports(slice, &group));
        // An empty slice of the family suits any group, and any slice suits a group without endpoints.
        let spare = rest.into_iter().find(|slice| {
            let is_free = is_empty(slice) || group.endpoints.is_empty();
            same.is_empty() && slice.address_type == group.address_type && is_free
        });
        let slices: Vec<_> = same.into_iter().chain(spare).collect();
        kept.extend(slices.iter().map(|slice| slice.metadata.uid.as_ref()));
        distribute(&slices, group, &mut changes);
    }
    let unused = existing.iter().filter(|slice| !kept.contains(&slice.metadata.uid.as_ref()));
    changes.extend(unused.map(SliceChange::Delete));
    changes
}

fn has_group_ports(slice: &EndpointSlice, group: &EndpointGroup) -> bool {
    slice.address_type == group.address_type && slice.ports.clone().unwrap_or_default() == group.ports
}

fn is_empty(slice: &EndpointSlice) -> bool {
    slice.endpoints.as_ref().is_none_or(Vec::is_empty)
}

fn is_same_target(left: &Endpoint, right: &Endpoint) -> bool {
    left.addresses == right.addresses && left.target_ref == right.target_ref
}

/// Distributes a group's endpoints over its slices.
fn distribute<'a>(slices: &[&'a EndpointSlice], group: EndpointGroup, changes: &mut Vec<SliceChange<'a>>) {
    let EndpointGroup { address_type, ports, endpoints: mut left } = group;
    let with =
        |endpoints| EndpointGroup { address_type: address_type.clone(), ports: ports.clone(), endpoints };
    let mut contents: Vec<Vec<Endpoint>> = Vec::new();
    for slice in slices {
        let mut content = Vec::new();
        for known in slice.endpoints.iter().flatten() {
            if let Some(at) = left.iter().position(|endpoint| is_same_target(endpoint, known)) {
                content.push(left.swap_remove(at));
            }
        }
        contents.push(content);
    }
    left.sort_by(|one, other| one.addresses.cmp(&other.addresses));
    for content in &mut contents {
        let room = ENDPOINTS_MAX.saturating_sub(content.len()).min(left.len());
        content.extend(left.drain(..room));
    }
    let has_any = contents.iter().any(|content| !content.is_empty());
    for (at, (slice, content)) in slices.iter().zip(contents).enumerate() {
        let is_needed = !content.is_empty() || (at == 0 && !has_any);
        let is_right = has_group_ports(slice, &with(Vec::new()))
            && slice.endpoints.clone().unwrap_or_default() == content;
        match (is_needed, is_right) {
            (false, _) => changes.push(SliceChange::Delete(slice)),
            (true, true) => {}
            (true, false) => changes.push(SliceChange::Update(slice, with(content))),
        }
    }
    let is_first = slices.is_empty() && left.is_empty();
    while !left.is_empty() {
        let rest = left.split_off(left.len().min(ENDPOINTS_MAX));
        changes.push(SliceChange::Create(with(std::mem::replace(&mut left, rest))));
    }
    if is_first {
        changes.push(SliceChange::Create(with(Vec::new())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Service {
        let service = json!({"metadata": {"name": "web"}, "spec": {"ipFamilies": ["IPv4"], "ports": [
            {"port": 80, "targetPort": "http"}, {"name": "admin", "port": 81, "targetPort": 9000}]}});
        serde_json::from_value(service).unwrap()
    }

    fn pod(number: usize, is_ready: bool) -> Arc<PartialPod> {
        let pod = json!({"metadata": {"name": format!("p{number}"), "uid": number.to_string()},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250),
                       "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn slice(name: &str, group: &EndpointGroup) -> EndpointSlice {
        let mut slice = EndpointSlice {
            address_type: group.address_type.clone(),
            endpoints: Some(group.endpoints.clone()),
            ports: Some(group.ports.clone()),
            ..EndpointSlice::default()
        };
        slice.metadata.uid = Some(name.into());
        slice
    }

    fn describe(changes: &[SliceChange<'_>]) -> Vec<String> {
        let lines = changes.iter().map(|change| match change {
            SliceChange::Create(group) => format!("create {}", group.endpoints.len()),
            SliceChange::Update(slice, group) => {
                format!("update {} {}", slice.metadata.uid.as_deref().unwrap(), group.endpoints.len())
            }
            SliceChange::Delete(slice) => format!("delete {}", slice.metadata.uid.as_deref().unwrap()),
        });
        lines.collect()
    }

    #[test]
    fn pods_become_endpoints() {
        let pods = [pod(1, true), pod(2, false)];
        let groups = endpoint_groups(&service(), &pods);
        assert_eq!(groups.len(), 1);
        let ports: Vec<_> = groups[0].ports.iter().map(|port| (port.name.as_deref(), port.port)).collect();
        assert_eq!(ports, [(Some(""), Some(8080)), (Some("admin"), Some(9000))]);
        let ready: Vec<_> =
            groups[0].endpoints.iter().map(|one| one.conditions.as_ref().unwrap().ready).collect();
        assert_eq!(ready, [Some(true), Some(false)]);
    }

    #[test]
    fn few_slices_change() {
        let all: Vec<Arc<PartialPod>> = (0..250).map(|number| pod(number, true)).collect();
        let group = |pods: &[Arc<PartialPod>]| endpoint_groups(&service(), pods);
        assert_eq!(describe(&slice_changes(&[], group(&[]))), ["create 0"]);
        assert_eq!(describe(&slice_changes(&[], group(&all))), ["create 100", "create 100", "create 50"]);
        let empty = slice("e", &group(&[])[0]);
        let first = slice("a", &group(&all[..100])[0]);
        let second = slice("b", &group(&all[100..150])[0]);
        assert_eq!(describe(&slice_changes(std::slice::from_ref(&empty), group(&all[..1]))), ["update e 1"]);
        assert!(slice_changes(&[empty], group(&[])).is_empty());
        let both = [first, second];
        assert!(slice_changes(&both, group(&all[..150])).is_empty());
        assert_eq!(describe(&slice_changes(&both, group(&all[..151]))), ["update b 51"]);
        assert_eq!(describe(&slice_changes(&both, group(&all[1..150]))), ["update a 99"]);
        assert_eq!(describe(&slice_changes(&both, group(&all[..100]))), ["delete b"]);
        assert_eq!(describe(&slice_changes(&both, group(&[]))), ["update a 0", "delete b"]);
    }
}
