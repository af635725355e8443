//! Endpoints: the addresses behind a Service, in the older form.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::discovery::endpoint_slice;
use crate::kinds::fill::{Fields, each, fill_zero};
use crate::kinds::names;
use crate::kinds::printing::{Column, age, read, shortened};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::container::PROTOCOLS;

/// The addresses behind a Service, in the older form.
pub(crate) static ENDPOINTS: Kind = Kind {
    short_names: &["ep"],
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    registry_name: Some("services/endpoints"),
    strategy: PLAIN.created_by_update(),
    defaults: Some(defaults),
    validate: Some(validate),
    columns: &[Column::NAME, Column::text("Endpoints"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::namespaced("", "v1", "endpoints", "Endpoints")
};

/// Endpoints.
fn validate(object: &At<'_>, errors: &mut Errors) {
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

/// Endpoints.
fn defaults(object: &mut Fields) {
    for subset in each(object, "subsets") {
        for port in each(subset, "ports") {
            fill_zero(port, "protocol", "TCP");
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let addresses: Vec<_> = read::list(object, "subsets").iter().flat_map(subset).collect();
    let has_subsets = !read::list(object, "subsets").is_empty();
    let shown =
        if has_subsets { shortened(&addresses, endpoint_slice::SHOWN, ",") } else { "<none>".to_owned() };
    vec![read::name(object).into(), shown.into(), age::of(object, now).into()]
}

/// Each address with each port; headless services have no ports.
fn subset(subset: &Value) -> Vec<String> {
    let addresses = read::list(subset, "addresses");
    let ports = read::list(subset, "ports");
    if ports.is_empty() {
        return addresses.iter().map(|address| read::text(address, "ip").to_owned()).collect();
    }
    let with = |port: &Value| {
        let port = read::number(port, "port");
        addresses
            .iter()
            .map(move |address| host_and_port(read::text(address, "ip"), port))
            .collect::<Vec<_>>()
    };
    ports.iter().flat_map(with).collect()
}

fn host_and_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
