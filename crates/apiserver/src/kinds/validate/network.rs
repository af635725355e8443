//! Ingresses, NetworkPolicies, EndpointSlices and Endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::container::PROTOCOLS;
use super::selector;
use crate::field::Error;
use crate::kinds::names;

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;

/// How the class of an Ingress was named before it had a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Go passes an empty text as the offending value in these places.
fn empty_invalid(place: &At<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Error::invalid(&place.path, &json!(""), detail));
}

/// An Ingress.
pub(in crate::kinds) fn ingress(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (rules, fallback) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.len() == 0 && !fallback.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&spec.path, rules.value, detail));
    }
    if fallback.is_set() {
        backend(&fallback, errors);
    }
    for rule in rules.items() {
        host(&rule.field("host"), errors);
        let http = rule.field("http");
        if http.is_set() {
            paths(&http.field("paths"), errors);
        }
    }
    for tls in spec.field("tls").items() {
        for name in tls.field("hosts").items() {
            host(&name, errors);
        }
    }
    spec.field("ingressClassName").must_pass(names::subdomain, errors);
}

/// A new Ingress: the old way to name its class and the new one agree.
pub(in crate::kinds) fn ingress_create(object: &At<'_>, errors: &mut Errors) {
    ingress(object, errors);
    let annotations = &object.value["metadata"]["annotations"];
    let (noted, class) = (&annotations[CLASS_ANNOTATION], &object.value["spec"]["ingressClassName"]);
    if !noted.is_null() && !class.is_null() && noted != class {
        let place = object.path.field("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(Error::invalid(&place.field(CLASS_ANNOTATION), noted, detail));
    }
}

fn host(host: &At<'_>, errors: &mut Errors) {
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
    let plain = host.text().strip_prefix("*.").unwrap_or(host.text());
    if plain.is_empty() {
        return;
    }
    for complaint in names::subdomain(plain) {
        host.invalid(&complaint, errors);
    }
}

fn paths(list: &At<'_>, errors: &mut Errors) {
    const REFUSED: [&str; 4] = ["//", "/./", "/../", "%2f"];
    list.must_be_set(errors);
    for entry in list.items() {
        let (kind, path) = (entry.field("pathType"), entry.field("path"));
        if !kind.is_set() {
            kind.required("pathType must be specified", errors);
            continue;
        }
        kind.must_be_one_of(&["Exact", "ImplementationSpecific", "Prefix"], errors);
        let may_be_absent = kind.text() == "ImplementationSpecific";
        let is_fine = path.text().starts_with('/') || (may_be_absent && path.is_zero());
        if !is_fine {
            errors.push(Error::invalid(&path.path, &json!(path.text()), "must be an absolute path"));
        }
        for part in REFUSED.iter().filter(|part| !may_be_absent && path.text().contains(**part)) {
            path.invalid(&format!("must not contain '{part}'"), errors);
        }
        backend(&entry.field("backend"), errors);
    }
}

fn backend(backend: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => empty_invalid(backend, "cannot set both resource and service backends", errors),
        (false, false) => empty_invalid(backend, "resource or service backend is required", errors),
        (false, true) => {
            resource.field("kind").must_be_set(errors);
            resource.field("name").must_be_set(errors);
        }
        (true, false) => {
            service.field("name").must_be_named(names::label, errors);
            let port = service.field("port");
            let (name, number) = (port.field("name"), port.field("number"));
            match (name.is_zero(), number.is_zero()) {
                (false, false) => empty_invalid(backend, "cannot set both port name & port number", errors),
                (false, true) => name.must_pass(names::port_name, errors),
                (true, false) => number.must_be_port(errors),
                (true, true) => backend.required("port name or number is required", errors),
            }
        }
    }
}

/// A NetworkPolicy.
pub(in crate::kinds) fn policy(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    selector::check(&spec.field("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, errors);
            }
        }
    }
    for kind in spec.field("policyTypes").items() {
        kind.must_be_one_of(&["Ingress", "Egress"], errors);
    }
}

fn policy_port(port: &At<'_>, errors: &mut Errors) {
    let (number, end) = (port.field("port"), port.field("endPort"));
    port.field("protocol").must_be_one_of(&["TCP", "UDP", "SCTP"], errors);
    if !number.is_set() {
        if end.is_set() {
            end.invalid("may not be specified when `port` is not specified", errors);
        }
        return;
    }
    number.must_be_port_or_name(errors);
    if !end.is_set() {
        return;
    }
    if number.value.is_string() {
        end.invalid("may not be specified when `port` is non-numeric", errors);
    } else if end.number() < number.number() {
        errors.push(Error::invalid(&end.path, number.value, "must be greater than or equal to `port`"));
    }
}

fn policy_peer(peer: &At<'_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let block = peer.field("ipBlock");
    for one in &selectors {
        selector::check(one, errors);
    }
    match (selectors.iter().any(At::is_set), block.is_set()) {
        (false, false) => peer.required("must specify a peer", errors),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer", errors),
        (false, true) => must_be_network(&block.field("cidr"), errors),
        (true, false) => {}
    }
    for part in block.field("except").items() {
        must_be_network(&part, errors);
    }
}

fn must_be_network(range: &At<'_>, errors: &mut Errors) {
    if !range.must_be_set(errors) {
        return;
    }
    let is_network = range.text().split_once('/').is_some_and(|(address, bits)| {
        let max = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= max)
    });
    if !is_network {
        range.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)", errors);
    }
}

/// A new EndpointSlice.
pub(in crate::kinds) fn endpoint_slice_create(object: &At<'_>, errors: &mut Errors) {
    endpoint_slice(object, errors);
    endpoints_of_slice(object, errors);
}

/// What holds for new and changed EndpointSlices alike.
pub(in crate::kinds) fn endpoint_slice(object: &At<'_>, errors: &mut Errors) {
    let kind = object.field("addressType");
    if kind.must_be_set(errors) {
        kind.must_be_one_of(&["FQDN", "IPv4", "IPv6"], errors);
    }
    let mut seen = BTreeSet::new();
    for port in object.field("ports").items() {
        let name = port.field("name");
        name.must_pass(names::label, errors);
        if !seen.insert(name.text().to_owned()) {
            name.duplicate(errors);
        }
        port.field("protocol").must_be_one_of(&PROTOCOLS, errors);
    }
}

fn endpoints_of_slice(object: &At<'_>, errors: &mut Errors) {
    let (list, kind) = (object.field("endpoints"), object.field("addressType"));
    if list.len() > ENDPOINTS_MAX {
        errors.push(Error::too_many(&list.path, list.len(), ENDPOINTS_MAX));
        return;
    }
    for endpoint in list.items() {
        check_endpoint(&endpoint, kind.text(), errors);
    }
}

fn check_endpoint(endpoint: &At<'_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.len() == 0 {
        addresses.required("must contain at least 1 address", errors);
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(Error::too_many(&addresses.path, addresses.len(), ADDRESSES_MAX));
    }
    for address in addresses.items() {
        match (kind, address.text().parse::<IpAddr>()) {
            ("IPv4", Ok(IpAddr::V6(_))) | ("IPv6", Ok(IpAddr::V4(_))) => {
                errors.push(Error::invalid(
                    &addresses.path,
                    address.value,
                    &format!("must be an {kind} address"),
                ));
            }
            ("IPv4" | "IPv6", Err(_)) => address.must_be_address(errors),
            _ => {}
        }
    }
    endpoint.field("nodeName").must_pass(names::subdomain, errors);
    endpoint.field("hostname").must_pass(names::label, errors);
}

/// A changed EndpointSlice.
pub(in crate::kinds) fn endpoint_slice_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("addressType").must_stay(&old["addressType"], errors);
    // Endpoints that were accepted once and did not change stay accepted.
    if new.field("endpoints").value != &old["endpoints"] {
        endpoints_of_slice(new, errors);
    }
}

/// Endpoints.
pub(in crate::kinds) fn endpoints(object: &At<'_>, errors: &mut Errors) {
    for subset in object.field("subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|name| subset.field(name));
        if lists.iter().all(|list| list.len() == 0) {
            subset.required("must specify `addresses` or `notReadyAddresses`", errors);
        }
        for list in &lists {
            for address in list.items() {
                address.field("ip").must_be_address(errors);
                address.field("hostname").must_pass(names::label, errors);
            }
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            if ports.len() > 1 {
                port.field("name").must_be_set(errors);
            }
            port.field("name").must_pass(names::label, errors);
            port.field("port").must_be_port(errors);
            port.field("protocol").must_be_one_of(&PROTOCOLS, errors);
        }
    }
}
