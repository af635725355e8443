//! NetworkPolicy: says which Pods may talk to each other.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::validate::network_range::{self, NetworkRange};
use crate::kinds::validate::selector;
use crate::object::fill::{JsonObject, is_zero, object_or_insert, objects_mut, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, selectors};
use crate::resource::declaration::{BuiltInKind, warn_only_stored};
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Says which Pods may talk to each other.
pub(crate) static NETWORK_POLICY: BuiltInKind = BuiltInKind {
    short_names: &["netpol"],
    strategy: PLAIN.counted(),
    defaults: Some(defaults),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    warn: Some(warn),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("Pod-Selector"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
};

/// Validates a new NetworkPolicy.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    check(object, &BTreeSet::new(), errors);
}

/// Validates a changed NetworkPolicy: ranges that it had before may stay, wherever they are now.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    check(new, &ranges_of(old), errors);
}

fn check(object: &ValueAt<'_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    let spec = object.field("spec");
    selector::validate_label_selector(&spec.field("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, known, errors);
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

fn policy_peer(peer: &ValueAt<'_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let block = peer.field("ipBlock");
    for one in &selectors {
        selector::validate_label_selector(one, errors);
    }
    match (selectors.iter().any(ValueAt::is_set), block.is_set()) {
        (false, false) => peer.required("must specify a peer", errors),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer", errors),
        (false, true) => address_block(&block, known, errors),
        (true, false) => {}
    }
}

/// Validates a range and the parts that are excluded from it. The `known` ranges are not checked: the policy had them
/// before.
fn address_block(block: &ValueAt<'_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    let whole = block.field("cidr");
    if !whole.must_be_set(errors) {
        return;
    }
    let check_new = |range: &ValueAt<'_>, errors: &mut Errors| {
        if !known.contains(range.text()) {
            network_range::check(range, range.text(), errors);
        }
    };
    check_new(&whole, errors);
    let Some(all) = NetworkRange::parse_any(whole.text()) else { return };
    for part in block.field("except").items() {
        check_new(&part, errors);
        if NetworkRange::parse_any(part.text()).is_some_and(|part| !all.strictly_contains(part)) {
            part.invalid("must be a strict subset of `cidr`", errors);
        }
    }
}

/// Returns all address blocks of a policy with their paths.
fn address_blocks(policy: &Value) -> impl Iterator<Item = (String, &Value)> {
    let directions = [("ingress", "from"), ("egress", "to")];
    directions.into_iter().flat_map(|(direction, peers)| {
        let rules = read::list_at(&policy["spec"], direction).iter().enumerate();
        rules.flat_map(move |(rule_at, rule)| {
            let peers_of_rule = read::list_at(rule, peers).iter().enumerate();
            peers_of_rule.filter(|(_, peer)| peer["ipBlock"].is_object()).map(move |(peer_at, peer)| {
                (format!("spec.{direction}[{rule_at}].{peers}[{peer_at}].ipBlock"), &peer["ipBlock"])
            })
        })
    })
}

/// Returns all ranges of a policy.
fn ranges_of<'a>(policy: &'a Value) -> BTreeSet<&'a str> {
    let of_block = |(_, block): (String, &'a Value)| -> Vec<&'a str> {
        let parts = read::list_at(block, "except").iter();
        std::iter::once(&block["cidr"]).chain(parts).filter_map(Value::as_str).collect()
    };
    address_blocks(policy).flat_map(of_block).collect()
}

/// Returns warnings about ranges that are not spelled in the canonical way.
fn warn(policy: &Value, _: Option<&Value>) -> Vec<String> {
    let of_block = |(path, block): (String, &Value)| {
        let whole = network_range::spelling_warning(&format!("{path}.cidr"), read::string_at(block, "cidr"));
        let parts = read::list_at(block, "except").iter().enumerate().filter_map(|(at, part)| {
            network_range::spelling_warning(
                &format!("{path}.except[{at}]"),
                part.as_str().unwrap_or_default(),
            )
        });
        whole.into_iter().chain(parts).collect::<Vec<_>>()
    };
    address_blocks(policy).flat_map(of_block).collect()
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
