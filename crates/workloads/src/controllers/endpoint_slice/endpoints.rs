//! Builds the Endpoints object of a Service: the same Pods in one list, with the Service's name. EndpointSlices
//! replaced it, but some clients still read it. Pods about to be deleted are left out, as in Kubernetes. This module is
//! pure.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::Endpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plan::EndpointGroup;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// The maximum number of addresses that Kubernetes puts into one object; clients that need more read slices.
const ADDRESSES_MAX: usize = 1000;

/// Returns a Service's Endpoints for these groups. With two address families, it contains only the first.
pub(super) fn endpoints(service: &Service, groups: &[EndpointGroup]) -> Endpoints {
    let family = groups.first().map(|group| group.address_type.as_str()).unwrap_or_default();
    let mut room = ADDRESSES_MAX;
    let of_family = groups.iter().filter(|group| group.address_type == family);
    let subsets: Vec<EndpointSubset> = of_family.filter_map(|group| subset(group, &mut room)).collect();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    }
}

fn subset(group: &EndpointGroup, room: &mut usize) -> Option<EndpointSubset> {
    let is = |endpoint: &&Endpoint, claim: fn(&Endpoint) -> Option<bool>| claim(endpoint) == Some(true);
    let ready = |one: &Endpoint| one.conditions.as_ref().and_then(|conditions| conditions.ready);
    let leaving = |one: &Endpoint| one.conditions.as_ref().and_then(|conditions| conditions.terminating);
    let mut shown: Vec<&Endpoint> =
        group.endpoints.iter().filter(|one| is(one, ready) || !is(one, leaving)).collect();
    shown.sort_by(|one, other| one.addresses.cmp(&other.addresses));
    shown.truncate(*room);
    *room -= shown.len();
    let (up, down): (Vec<_>, Vec<_>) = shown.into_iter().partition(|one| is(one, ready));
    let listed = |all: Vec<&Endpoint>| {
        Some(all.into_iter().map(address).collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    let (addresses, not_ready_addresses) = (listed(up), listed(down));
    (addresses.is_some() || not_ready_addresses.is_some()).then(|| EndpointSubset {
        addresses,
        not_ready_addresses,
        ports: Some(ports(group)).filter(|ports| !ports.is_empty()),
    })
}

fn address(endpoint: &Endpoint) -> EndpointAddress {
    EndpointAddress {
        ip: endpoint.addresses.first().cloned().unwrap_or_default(),
        hostname: endpoint.hostname.clone(),
        node_name: endpoint.node_name.clone(),
        target_ref: endpoint.target_ref.clone(),
    }
}

fn ports(group: &EndpointGroup) -> Vec<EndpointPort> {
    let port = |one: &k8s_openapi::api::discovery::v1::EndpointPort| EndpointPort {
        name: one.name.clone().filter(|name| !name.is_empty()),
        port: one.port.unwrap_or_default(),
        protocol: one.protocol.clone(),
        app_protocol: one.app_protocol.clone(),
    };
    group.ports.iter().map(port).collect()
}
