//! Addresses that are objects: IPAddresses, named by what they are, and the ranges Services get theirs from.
//!
//! **Invariant:** an address or a range has one spelling only, since it is compared as text.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::names;

const ADDRESS_TEXT: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE_TEXT: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const FAMILY_TEXT: &str =
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
/// One range of each family.
const RANGES_MAX: usize = 2;

/// A new IPAddress.
pub(in crate::kinds) fn address_create(object: &At<'_>, errors: &mut Errors) {
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
pub(in crate::kinds) fn address_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// A new ServiceCIDR.
pub(in crate::kinds) fn ranges_create(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let ranges = spec.field("cidrs");
    if ranges.len() == 0 {
        ranges.required("at least one CIDR required", errors);
    } else if ranges.len() > RANGES_MAX {
        // The real server prints the whole spec, by its Go names.
        let shown = json!({"CIDRs": ranges.value});
        errors.push(Error::invalid(&ranges.path, &shown, "may only hold up to 2 values"));
    } else {
        check_ranges(&ranges, errors);
    }
}

fn check_ranges(ranges: &At<'_>, errors: &mut Errors) {
    let mut families = Vec::new();
    for range in ranges.items() {
        if let Err(why) = canonical_range(range.text()) {
            range.invalid(&why, errors);
        }
        families.extend(parts(range.text()).map(|(address, _)| address.is_ipv4()));
    }
    if let [first, second] = families[..]
        && first == second
    {
        ranges.invalid(FAMILY_TEXT, errors);
    }
}

/// A changed ServiceCIDR: its ranges stay, but a second one may come.
pub(in crate::kinds) fn ranges_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let ranges = spec.field("cidrs");
    let before = old["spec"]["cidrs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let grows = before.len() == 1 && ranges.len() == RANGES_MAX;
    if !grows && before.len() != ranges.len() {
        ranges.invalid("field is immutable", errors);
        return;
    }
    for (range, before) in ranges.items().zip(before) {
        range.must_stay(before, errors);
    }
    if grows {
        check_ranges(&ranges, errors);
    }
}

/// Address and prefix length of a range.
fn parts(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = address.parse::<IpAddr>().ok()?;
    let bits = bits.parse::<u8>().ok()?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    (bits <= max).then_some((address, bits))
}

fn canonical_range(text: &str) -> Result<(), String> {
    let (address, bits) = parts(text).ok_or(RANGE_TEXT)?;
    if is_mapped(address) {
        return Err("must not have an IPv4-mapped IPv6 address".into());
    }
    if masked(address, bits) != address {
        return Err("must not have bits set beyond the prefix length".into());
    }
    let written = format!("{address}/{bits}");
    if written == text { Ok(()) } else { Err(format!("must be in canonical form ({written:?})")) }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}
