//! NetworkPolicy: which Pods may talk to which.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::validate::selector;
use crate::object::fill::{JsonObject, is_zero, object_or_insert, objects_mut, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, selectors};
use crate::resource::declaration::{BuiltInKind, warn_only_stored};
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Which Pods may talk to which.
pub(crate) static NETWORK_POLICY: BuiltInKind = BuiltInKind {
    short_names: &["netpol"],
    strategy: PLAIN.counted(),
    defaults: Some(defaults),
    validate: Some(validate),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("Pod-Selector"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
};

/// Validates a NetworkPolicy.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

fn policy_port(port: &ValueAt<'_>, errors: &mut Errors) {
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

fn policy_peer(peer: &ValueAt<'_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let block = peer.field("ipBlock");
    for one in &selectors {
        selector::check(one, errors);
    }
    match (selectors.iter().any(ValueAt::is_set), block.is_set()) {
        (false, false) => peer.required("must specify a peer", errors),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer", errors),
        (false, true) => must_be_network(&block.field("cidr"), errors),
        (true, false) => {}
    }
    for part in block.field("except").items() {
        must_be_network(&part, errors);
    }
}

fn must_be_network(range: &ValueAt<'_>, errors: &mut Errors) {
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

/// Fills in the defaults of a NetworkPolicy.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    for direction in ["ingress", "egress"] {
        for rule in objects_mut(spec, direction) {
            for port in objects_mut(rule, "ports") {
                set_if_absent(port, "protocol", "TCP");
            }
        }
    }
    let types = if is_zero(spec.get("egress")) { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    set_if_zero(spec, "policyTypes", types);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let selector = selectors::selector(object, "spec.podSelector");
    vec![read::name(object).into(), selector.into(), age::age_of_object(object, now).into()]
}
