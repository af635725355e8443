//! Service: one address for a set of Pods.
//!
//! `cluster_ip_fields` synchronizes linked fields (`clusterIP` and `clusterIPs`, IP families, values left over after a
//! type change), [`service_allocator`] then allocates the missing cluster IPs and node ports, `validation` has the
//! rules for each type, and `printing` has the columns of `kubectl get services`.

mod cluster_ip_fields;
pub(in crate::kinds) mod printing;
pub mod service_allocator;
pub(in crate::kinds) mod validation;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use crate::kinds::kind_warnings;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::names::NameRule;
use crate::object::fill::{
    JsonObject, is_zero, object_mut, object_or_insert, objects_mut, set_if_absent, set_if_zero,
};
use crate::object::read;
use crate::printing::Column;
use crate::resource::declaration::{BuiltInKind, InitialStatus, PROXY, SubresourceDeclaration};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

/// The range of Service addresses: a million addresses, as is common in large clusters.
pub const SERVICE_NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// The address of the Service `default/kubernetes`.
pub const API_SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The default time for which a client sticks to one endpoint: three hours.
const AFFINITY_TIMEOUT_S: u32 = 10_800;

/// One address for a set of Pods.
pub static SERVICE: BuiltInKind = BuiltInKind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[
        SubresourceDeclaration::with_body("proxy", ("", "", "ServiceProxyOptions"), PROXY),
        STATUS,
    ],
    registry_name: Some("services/specs"),
    strategy: PLAIN.created_by_update().returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"loadBalancer": {}})),
    prepare_create: Some(|_, fields, _| {
        cluster_ip_fields::synchronize(fields, None);
        Ok(())
    }),
    prepare_update: Some(|fields, old| cluster_ip_fields::synchronize(fields, Some(old))),
    has_cluster_addresses: true,
    validate: Some(validation::validate),
    validate_create: Some(validation::validate_create),
    validate_update: Some(validation::validate_update),
    validate_status: Some(validate_status),
    warn: Some(kind_warnings::service),
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
    selectable: SelectableFields::fields(&[
        ("spec.clusterIP", AbsentValue::Empty),
        ("spec.type", AbsentValue::Empty),
    ]),
    ..BuiltInKind::namespaced("", "v1", "services", "Service")
};

pub(in crate::kinds) fn balanced(object: &Value) -> &[Value] {
    read::list_at(&object["status"]["loadBalancer"], "ingress")
}

/// Validates the status of a Service: only load balancers have addresses there.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let balancer = status.field("loadBalancer");
    let list = balancer.field("ingress");
    if list.len() > 0 && new.value["spec"]["type"] != "LoadBalancer" {
        list.forbidden("may only be used when `spec.type` is 'LoadBalancer'", errors);
        return;
    }
    let known = balanced(old).iter().map(|one| read::string_at(one, "ip")).collect();
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

/// Validates the address of a load balancer: an IP address, a host name, or both.
pub(in crate::kinds) fn reachable(ingress: &ValueAt<'_>, known: &HashSet<&str>, errors: &mut Errors) {
    let (address, host) = (ingress.field("ip"), ingress.field("hostname"));
    if !address.is_zero() && !known.contains(address.text()) {
        address.must_be_address(errors);
    }
    host.must_pass(names::subdomain, errors);
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
}

/// Fills in the defaults of a Service. Addresses and node ports are allocated elsewhere.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_zero(spec, "type", "ClusterIP");
    session_affinity(spec);
    for port in objects_mut(spec, "ports") {
        set_if_zero(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(json!(0));
        set_if_zero(port, "targetPort", number);
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_balanced = kind == "LoadBalancer";
    if is_balanced || kind == "NodePort" || (kind == "ClusterIP" && !is_zero(spec.get("externalIPs"))) {
        set_if_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if is_balanced || kind == "NodePort" || kind == "ClusterIP" {
        set_if_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        set_if_absent(spec, "allocateLoadBalancerNodePorts", true);
        balancer_mode(object);
    }
}

fn session_affinity(spec: &mut JsonObject) {
    set_if_zero(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let client = object_or_insert(spec, "sessionAffinityConfig")
                .and_then(|config| object_or_insert(config, "clientIP"));
            if let Some(client) = client {
                set_if_absent(client, "timeoutSeconds", AFFINITY_TIMEOUT_S);
            }
        }
        _ => {}
    }
}

fn balancer_mode(object: &mut JsonObject) {
    let Some(balancer) = object_mut(object, "status").and_then(|status| object_mut(status, "loadBalancer"))
    else {
        return;
    };
    for ingress in objects_mut(balancer, "ingress") {
        if !is_zero(ingress.get("ip")) {
            set_if_absent(ingress, "ipMode", "VIP");
        }
    }
}
