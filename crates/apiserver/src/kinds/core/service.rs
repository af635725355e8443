//! Service: one address for a set of Pods.

pub(crate) mod allocator;
mod normalize;
pub(in crate::kinds) mod printing;
pub(in crate::kinds) mod validation;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use crate::kinds::declaration::{FirstStatus, Kind, PROXY, Part, STATUS};
use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero, items, made, text};
use crate::kinds::names;
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate::at::{At, Errors};

/// The range of Service addresses, as large clusters choose it: a million of them.
pub(crate) const SERVICE_NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// The address of the Service `default/kubernetes`.
pub(crate) const API_SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Three hours: how long a client sticks to one endpoint.
const AFFINITY_TIMEOUT_S: u32 = 10_800;

/// One address for a set of Pods.
pub(crate) static SERVICE: Kind = Kind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[Part::with_body("proxy", ("", "", "ServiceProxyOptions"), PROXY), STATUS],
    registry_name: Some("services/specs"),
    strategy: PLAIN.created_by_update().returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"loadBalancer": {}})),
    prepare_create: Some(|_, fields, _| {
        normalize::normalize(fields, None);
        Ok(())
    }),
    prepare_update: Some(|fields, old| normalize::normalize(fields, Some(old))),
    has_cluster_addresses: true,
    validate: Some(validation::validate),
    validate_update: Some(validation::validate_update),
    validate_status: Some(validate_status),
    columns: &[
        Column::NAME,
        Column::text("Type"),
        Column::text("Cluster-IP"),
        Column::text("External-IP"),
        Column::text("Port(s)"),
        Column::text("Age"),
        Column::text("Selector").wide(),
    ],
    cells: Some(printing::cells),
    selectable: Selectable::fields(&[("spec.clusterIP", Absent::Empty), ("spec.type", Absent::Empty)]),
    ..Kind::namespaced("", "v1", "services", "Service")
};

pub(in crate::kinds) fn balanced(object: &Value) -> &[Value] {
    items(&object["status"]["loadBalancer"], "ingress")
}

/// Only load balancers have somewhere to be reached.
fn validate_status(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let balancer = status.field("loadBalancer");
    let list = balancer.field("ingress");
    if list.len() > 0 && new.value["spec"]["type"] != "LoadBalancer" {
        list.forbidden("may only be used when `spec.type` is 'LoadBalancer'", errors);
        return;
    }
    let known = balanced(old).iter().map(|one| text(one, "ip")).collect();
    for ingress in list.items() {
        reachable(&ingress, &known, errors);
        let (mode, has_address) = (ingress.field("ipMode"), !ingress.field("ip").is_zero());
        match (mode.is_set(), has_address) {
            (false, true) => mode.required("must be specified when `ip` is set", errors),
            (true, false) => mode.forbidden("may not be specified when `ip` is not set", errors),
            _ => mode.must_be_one_of(&["Proxy", "VIP"], errors),
        }
    }
}

/// Where a load balancer is reached: by an address, by a name, or by both.
pub(in crate::kinds) fn reachable(ingress: &At<'_>, known: &HashSet<&str>, errors: &mut Errors) {
    let (address, host) = (ingress.field("ip"), ingress.field("hostname"));
    if !address.is_zero() && !known.contains(address.text()) {
        address.must_be_address(errors);
    }
    host.must_pass(names::subdomain, errors);
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
}

/// A Service. Addresses and ports of nodes are given out elsewhere.
fn defaults(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill_zero(spec, "type", "ClusterIP");
    session_affinity(spec);
    for port in each(spec, "ports") {
        fill_zero(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(json!(0));
        fill_zero(port, "targetPort", number);
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_balanced = kind == "LoadBalancer";
    if is_balanced || kind == "NodePort" || (kind == "ClusterIP" && !is_zero(spec.get("externalIPs"))) {
        fill_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if is_balanced || kind == "NodePort" || kind == "ClusterIP" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        balancer_mode(object);
    }
}

fn session_affinity(spec: &mut Fields) {
    fill_zero(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let client = made(spec, "sessionAffinityConfig").and_then(|config| made(config, "clientIP"));
            if let Some(client) = client {
                fill(client, "timeoutSeconds", AFFINITY_TIMEOUT_S);
            }
        }
        _ => {}
    }
}

fn balancer_mode(object: &mut Fields) {
    let Some(balancer) = inner(object, "status").and_then(|status| inner(status, "loadBalancer")) else {
        return;
    };
    for ingress in each(balancer, "ingress") {
        if !is_zero(ingress.get("ip")) {
            fill(ingress, "ipMode", "VIP");
        }
    }
}
