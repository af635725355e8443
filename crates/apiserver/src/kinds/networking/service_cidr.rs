//! ServiceCIDR: a range that addresses of Services are taken from.

use std::net::{IpAddr, Ipv6Addr};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::networking::ip_address;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::validate::at::{At, Errors};

const RANGE_TEXT: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

const FAMILY_TEXT: &str =
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";

/// One range of each family.
const RANGES_MAX: usize = 2;

/// A range that addresses of Services are taken from.
pub(crate) static SERVICE_CIDR: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.with_status(ALL_BUT_STATUS),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("CIDRs"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR")
};

/// A new ServiceCIDR.
fn validate_create(object: &At<'_>, errors: &mut Errors) {
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
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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
    if ip_address::is_mapped(address) {
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

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::texts(object, "spec.cidrs", ",").into(),
        age::of(object, now).into(),
    ]
}
