//! IPAddress: an allocated address.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::names;
use crate::names::NameRule;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

const ADDRESS_TEXT: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// An allocated address.
pub(crate) static IP_ADDRESS: BuiltInKind = BuiltInKind {
    short_names: &["ip"],
    strategy: PLAIN.named(NameRule::Any),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("ParentRef")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("networking.k8s.io", "v1", "ipaddresses", "IPAddress")
};

/// Validates a new IPAddress.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
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

/// Validates a changed IPAddress: its owner must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
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

/// Returns the numbers of a dotted address without leading zeros.
pub(in crate::kinds) fn without_zeros(text: &str) -> String {
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
    let parent = read::value_at(object, "spec.parentRef").map_or_else(|| "<none>".to_owned(), parent_text);
    vec![read::name(object).into(), parent.into(), age::age_of_object(object, now).into()]
}

fn parent_text(parent: &Value) -> String {
    let resource = [read::string_at(parent, "resource"), read::string_at(parent, "group")];
    let resource = read::joined(resource.into_iter().filter(|text| !text.is_empty()), ".").to_lowercase();
    let parts = [&*resource, read::string_at(parent, "namespace"), read::string_at(parent, "name")];
    read::joined(parts.into_iter().filter(|text| !text.is_empty()), "/")
}
