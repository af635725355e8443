//! Endpoints: the addresses behind a Service, in the older form.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::discovery::endpoint_slice;
use crate::kinds::validate::container::PROTOCOLS;
use crate::names;
use crate::object::fill::{JsonObject, objects_mut, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, shortened};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// The addresses behind a Service, in the older form.
pub static ENDPOINTS: BuiltInKind = BuiltInKind {
    short_names: &["ep"],
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    registry_name: Some("services/endpoints"),
    strategy: PLAIN.created_by_update(),
    defaults: Some(defaults),
    validate: Some(validate),
    columns: &[Column::NAME, Column::text("Endpoints"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("", "v1", "endpoints", "Endpoints")
};

/// Validates Endpoints.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

/// Fills in the defaults of Endpoints.
fn defaults(object: &mut JsonObject) {
    for subset in objects_mut(object, "subsets") {
        for port in objects_mut(subset, "ports") {
            set_if_zero(port, "protocol", "TCP");
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let addresses: Vec<_> = read::list_at(object, "subsets").iter().flat_map(subset).collect();
    let has_subsets = !read::list_at(object, "subsets").is_empty();
    let shown =
        if has_subsets { shortened(&addresses, endpoint_slice::SHOWN, ",") } else { "<none>".to_owned() };
    vec![read::name(object).into(), shown.into(), age::age_of_object(object, now).into()]
}

/// Returns each address with each port; headless services have no ports.
fn subset(subset: &Value) -> Vec<String> {
    let addresses = read::list_at(subset, "addresses");
    let ports = read::list_at(subset, "ports");
    if ports.is_empty() {
        return addresses.iter().map(|address| read::string_at(address, "ip").to_owned()).collect();
    }
    let with = |port: &Value| {
        let port = read::integer_at(port, "port");
        addresses
            .iter()
            .map(move |address| host_and_port(read::string_at(address, "ip"), port))
            .collect::<Vec<_>>()
    };
    ports.iter().flat_map(with).collect()
}

fn host_and_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
