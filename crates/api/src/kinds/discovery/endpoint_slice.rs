//! EndpointSlice: some of the addresses behind a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::field::Error;
use crate::kinds::validate::container::PROTOCOLS;
use crate::names;
use crate::object::fill::{JsonObject, objects_mut, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age, shortened};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{GenerationRule, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const ENDPOINTS_MAX: usize = 1000;

const ADDRESSES_MAX: usize = 100;

/// The number of hosts, ports or addresses that are printed; further ones are only counted.
pub(in crate::kinds) const SHOWN: usize = 3;

/// Some of the addresses behind a Service.
pub static ENDPOINT_SLICE: BuiltInKind = BuiltInKind {
    strategy: PLAIN.generation(GenerationRule::ContentAndLabels),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[
        Column::NAME,
        Column::text("AddressType"),
        Column::text("Ports"),
        Column::text("Endpoints"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
};

/// Validates a new EndpointSlice.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate(object, errors);
    endpoints_of_slice(object, errors);
}

/// Validates new and changed EndpointSlices.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

fn endpoints_of_slice(object: &ValueAt<'_>, errors: &mut Errors) {
    let (list, kind) = (object.field("endpoints"), object.field("addressType"));
    if list.len() > ENDPOINTS_MAX {
        errors.push(Error::too_many(&list.path, list.len(), ENDPOINTS_MAX));
        return;
    }
    for endpoint in list.items() {
        check_endpoint(&endpoint, kind.text(), errors);
    }
}

fn check_endpoint(endpoint: &ValueAt<'_>, kind: &str, errors: &mut Errors) {
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

/// Validates a changed EndpointSlice.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("addressType").must_stay(&old["addressType"], errors);
    // Unchanged endpoints that were accepted once stay accepted.
    if new.field("endpoints").value != &old["endpoints"] {
        endpoints_of_slice(new, errors);
    }
}

/// Fills in the defaults of an EndpointSlice.
fn defaults(object: &mut JsonObject) {
    for port in objects_mut(object, "ports") {
        set_if_absent(port, "name", "");
        set_if_absent(port, "protocol", "TCP");
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<_> = read::list_at(object, "ports")
        .iter()
        .map(|port| match read::value_at(port, "port") {
            Some(number) => number.to_string(),
            None => read::value_at(port, "name").and_then(Value::as_str).unwrap_or("*").to_owned(),
        })
        .collect();
    let endpoints = read::list_at(object, "endpoints").iter();
    let addresses: Vec<_> = endpoints
        .flat_map(|endpoint| read::list_at(endpoint, "addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        read::name(object).into(),
        read::string_at(object, "addressType").into(),
        or_unset(shortened(&ports, SHOWN, ",")).into(),
        or_unset(shortened(&addresses, SHOWN, ",")).into(),
        age::age_of_object(object, now).into(),
    ]
}

fn or_unset(text: String) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text }
}
