//! IPAddress: an address that is taken.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::names;
use crate::kinds::names::NameRule;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

const ADDRESS_TEXT: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// An address that is taken.
pub(crate) static IP_ADDRESS: Kind = Kind {
    short_names: &["ip"],
    strategy: PLAIN.named(NameRule::Any),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("ParentRef")],
    cells: Some(cells),
    ..Kind::cluster_scoped("networking.k8s.io", "v1", "ipaddresses", "IPAddress")
};

/// A new IPAddress.
fn validate_create(object: &At<'_>, errors: &mut Errors) {
    let metadata = object.field("metadata");
    if let Err(why) = canonical_address(metadata.field("name").text()) {
        metadata.field("name").invalid(&why, errors);
    }
    let spec = object.field("spec");
    let parent = spec.field("parentRef");
    if !parent.is_set() {
        parent.required("", errors);
        return;
    }
    parent.field("group").must_pass(names::subdomain, errors);
    for name in ["resource", "name"] {
        parent.field(name).must_be_named(names::path_segment, errors);
    }
    parent.field("namespace").must_pass(names::path_segment, errors);
}

/// A changed IPAddress: whose it is stays.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").field("parentRef").must_stay(&old["spec"]["parentRef"], errors);
}

fn canonical_address(text: &str) -> Result<(), String> {
    let Ok(address) = text.parse::<IpAddr>() else {
        let has_zeros = without_zeros(text).parse::<IpAddr>().is_ok();
        return Err(if has_zeros { "must not have leading 0s" } else { ADDRESS_TEXT }.into());
    };
    if is_mapped(address) {
        return Err("must not be an IPv4-mapped IPv6 address".into());
    }
    let written = address.to_string();
    if written == text { Ok(()) } else { Err(format!("must be in canonical form ({written:?})")) }
}

/// The numbers of a dotted address without zeros in front.
fn without_zeros(text: &str) -> String {
    let plain = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split('.').map(plain).collect::<Vec<_>>().join(".")
}

pub(in crate::kinds) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = read::at(object, "spec.parentRef").map_or_else(|| "<none>".to_owned(), parent);
    vec![read::name(object).into(), parent.into(), age::of(object, now).into()]
}

fn parent(parent: &Value) -> String {
    let resource = [read::text(parent, "resource"), read::text(parent, "group")];
    let resource = read::joined(resource.into_iter().filter(|text| !text.is_empty()), ".").to_lowercase();
    let parts = [&*resource, read::text(parent, "namespace"), read::text(parent, "name")];
    read::joined(parts.into_iter().filter(|text| !text.is_empty()), "/")
}
