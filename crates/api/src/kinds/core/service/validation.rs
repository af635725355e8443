//! Validates Services: ports, addresses, and the fields that each type allows and requires. The allocator checks
//! whether an address or a node port is free.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::validate::container::PROTOCOLS;
use crate::kinds::validate::network_range;
use crate::names;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// The first bits of IPv6 link-local multicast addresses, regardless of their flags.
const LINK_LOCAL_GROUP: u16 = 0xff02;

/// One day: the longest time for which a client may stick to one endpoint.
const AFFINITY_TIMEOUT_S_MAX: i64 = 86_400;

/// Fields that only load balancers have.
const BALANCED: [&str; 2] = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];

/// The older annotation for the ranges that may reach a load balancer.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn is_headless(spec: &ValueAt<'_>) -> bool {
    spec.field("clusterIP").text() == "None" || spec.field("clusterIPs").value.get(0) == Some(&json!("None"))
}

/// Validates a new Service.
pub(in crate::kinds) fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate(object, errors);
    source_ranges(object, &Value::Null, errors);
}

/// Validates the ranges that may reach a load balancer, in the field or else in the annotation. Ranges that the `old`
/// Service already has may stay. Spaces around a range are allowed.
fn source_ranges(object: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let (spec, metadata) = (object.field("spec"), object.field("metadata"));
    let (ranges, annotations) = (spec.field("loadBalancerSourceRanges"), metadata.field("annotations"));
    let annotation = annotations.key(SOURCE_RANGES);
    // kube-apiserver gives the field this name.
    let listed = ValueAt { value: ranges.value, path: spec.path.field("LoadBalancerSourceRanges") };
    let given = if listed.len() > 0 { listed } else { annotation };
    if given.is_set() && spec.field("type").text() != "LoadBalancer" {
        given.forbidden("may only be used when `type` is 'LoadBalancer'", errors);
    }
    if listed.len() > 0 {
        let known = read::list_at(&old["spec"], "loadBalancerSourceRanges");
        let is_known = |text: &str| known.iter().any(|range| range.as_str().map(str::trim) == Some(text));
        for range in listed.items().filter(|range| !is_known(range.text().trim())) {
            network_range::check(&range, range.text().trim(), errors);
        }
    } else if annotation.is_set() && *annotation.value != old["metadata"]["annotations"][SOURCE_RANGES] {
        for range in
            annotation.text().split(',').map(str::trim).filter(|_| !annotation.text().trim().is_empty())
        {
            network_range::check(&annotation, range, errors);
        }
    }
}

/// Validates a Service, new or changed.
pub(in crate::kinds) fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let kind = spec.field("type");
    kind.must_be_one_of(&TYPES, errors);
    match kind.text() {
        "ExternalName" => external_name(&spec, errors),
        "LoadBalancer" | "NodePort" if is_headless(&spec) => {
            let addresses = spec.field("clusterIPs");
            if let Some(first) = addresses.items().next() {
                first.invalid(&format!("may not be set to 'None' for {} services", kind.text()), errors);
            }
        }
        _ => {}
    }
    validate_ports(&spec, errors);
    spec.field("selector").must_be_labels(errors);
    validate_affinity(&spec, errors);
    validate_addresses(&spec, errors);
    external_addresses(&spec.field("externalIPs"), errors);
    spec.field("trafficDistribution")
        .must_be_one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
    type_dependent(&spec, errors);
}

fn external_name(spec: &ValueAt<'_>, errors: &mut Errors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let part = spec.field(name);
        if !part.is_zero() {
            part.forbidden("may not be set for ExternalName services", errors);
        }
    }
    let name = spec.field("externalName");
    if name.must_be_set(errors) {
        for error_text in names::subdomain(name.text().trim_end_matches('.')) {
            name.invalid(&error_text, errors);
        }
    }
}

fn validate_ports(spec: &ValueAt<'_>, errors: &mut Errors) {
    let list = spec.field("ports");
    let kind = spec.field("type");
    if list.len() == 0 && !is_headless(spec) && kind.text() != "ExternalName" {
        list.required("", errors);
    }
    let mut seen = SeenPorts::default();
    for port in list.items() {
        check_port(&port, list.len() > 1, errors);
        seen.check(&port, errors);
        let node = port.field("nodePort");
        if kind.text() == "ClusterIP" && !node.is_zero() {
            node.forbidden("may not be used when `type` is 'ClusterIP'", errors);
        }
    }
}

fn check_port(port: &ValueAt<'_>, needs_name: bool, errors: &mut Errors) {
    let name = port.field("name");
    if needs_name {
        name.must_be_set(errors);
    }
    name.must_pass(names::label, errors);
    port.field("port").must_be_port(errors);
    port.field("protocol").must_be_one_of(&PROTOCOLS, errors);
    port.field("targetPort").must_be_port_or_name(errors);
    port.field("appProtocol").must_pass(names::qualified, errors);
}

/// The ports seen so far: the ports of a Service must differ.
#[derive(Default)]
struct SeenPorts {
    names: BTreeSet<String>,
    numbers: BTreeSet<(String, i64)>,
    node_ports: BTreeSet<(String, i64)>,
}

impl SeenPorts {
    fn check(&mut self, port: &ValueAt<'_>, errors: &mut Errors) {
        let (name, protocol) = (port.field("name"), port.field("protocol").text().to_owned());
        if !name.is_zero() && !self.names.insert(name.text().to_owned()) {
            name.duplicate(errors);
        }
        let node = port.field("nodePort");
        if !node.is_zero() && !self.node_ports.insert((protocol.clone(), node.number())) {
            node.duplicate(errors);
        }
        let number = port.field("port").number();
        if !self.numbers.insert((protocol.clone(), number)) {
            errors.push(Error::duplicate(&port.path, &json!({"protocol": protocol, "port": number})));
        }
    }
}

fn validate_affinity(spec: &ValueAt<'_>, errors: &mut Errors) {
    let affinity = spec.field("sessionAffinity");
    affinity.must_be_one_of(&["ClientIP", "None"], errors);
    if affinity.text() != "ClientIP" {
        return;
    }
    let config = spec.field("sessionAffinityConfig");
    let client = config.field("clientIP");
    let timeout = client.field("timeoutSeconds");
    if !(1..=AFFINITY_TIMEOUT_S_MAX).contains(&timeout.number()) {
        timeout.invalid(&format!("must be between 1 and {AFFINITY_TIMEOUT_S_MAX}, inclusive"), errors);
    }
}

fn validate_addresses(spec: &ValueAt<'_>, errors: &mut Errors) {
    if spec.field("type").text() == "ExternalName" {
        return;
    }
    let (single, plural) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    match (single.text(), plural.value.get(0).and_then(Value::as_str)) {
        ("", Some(_)) => plural.invalid("must be empty when `clusterIP` is not specified", errors),
        (single, Some(first)) if single != first => {
            plural.invalid("first value must match `clusterIP`", errors);
        }
        _ => {}
    }
    for address in plural.items().filter(|address| address.text() != "None") {
        address.must_be_address(errors);
    }
    if plural.len() > 2 {
        plural.invalid("may only hold up to 2 values", errors);
    }
    let mut seen = BTreeSet::new();
    for family in spec.field("ipFamilies").items() {
        family.must_be_one_of(&["IPv4", "IPv6"], errors);
        if !seen.insert(family.text().to_owned()) {
            family.duplicate(errors);
        }
    }
    spec.field("ipFamilyPolicy")
        .must_be_one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
}

/// Validates external addresses that lead to the Service: they must be reachable from outside.
fn external_addresses(list: &ValueAt<'_>, errors: &mut Errors) {
    for one in list.items() {
        let Ok(address) = one.text().parse::<IpAddr>() else {
            one.must_be_address(errors);
            continue;
        };
        let (is_near, is_near_group) = match address {
            IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(address) => {
                (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == LINK_LOCAL_GROUP)
            }
        };
        if address.is_unspecified() {
            one.invalid(&format!("may not be unspecified ({})", one.text()), errors);
        }
        if address.is_loopback() {
            one.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)", errors);
        }
        if is_near {
            one.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)", errors);
        }
        if is_near_group {
            one.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)", errors);
        }
    }
}

/// Validates fields that only some types have.
fn type_dependent(spec: &ValueAt<'_>, errors: &mut Errors) {
    let kind = spec.field("type");
    let is_balanced = kind.text() == "LoadBalancer";
    for name in BALANCED {
        let part = spec.field(name);
        if !is_balanced && part.is_set() && (part.value.is_boolean() || !part.is_zero()) {
            part.forbidden("may only be used when `type` is 'LoadBalancer'", errors);
        }
    }
    let external = spec.field("externalTrafficPolicy");
    if !external.is_zero() {
        let is_reachable = is_balanced || kind.text() == "NodePort" || spec.field("externalIPs").len() > 0;
        if is_reachable {
            external.must_be_one_of(&["Cluster", "Local"], errors);
        } else {
            external.invalid("may only be set for externally-accessible services", errors);
        }
    }
    spec.field("internalTrafficPolicy").must_be_one_of(&["Cluster", "Local"], errors);
}

/// Validates a changed Service: ranges that it already had may stay, and the first address must not change.
pub(in crate::kinds) fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    source_ranges(new, old, errors);
    let spec = new.field("spec");
    let old = &old["spec"];
    let is_named = |kind: &str| kind == "ExternalName";
    let was_headless = old["clusterIP"] == "None";
    if is_named(spec.field("type").text())
        || is_named(old["type"].as_str().unwrap_or_default())
        || (was_headless && is_headless(&spec))
    {
        return;
    }
    let addresses = spec.field("clusterIPs");
    let Some(before) = read::list_at(old, "clusterIPs").first() else { return };
    match addresses.value.get(0) {
        Some(first) if first == before => {}
        first => {
            let detail = if first.is_some() {
                "may not change once set"
            } else {
                "primary clusterIP can not be unset"
            };
            errors.push(Error::invalid(&addresses.path.index(0), addresses.value, detail));
        }
    }
}
