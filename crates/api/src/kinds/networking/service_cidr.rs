//! ServiceCIDR: a range from which Service addresses are allocated.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::kinds::validate::network_range::{self, NetworkRange};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const FAMILY_TEXT: &str =
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";

/// One range of each family.
const RANGES_MAX: usize = 2;

/// A range from which Service addresses are allocated.
pub(crate) static SERVICE_CIDR: BuiltInKind = BuiltInKind {
    subresources: &[STATUS],
    strategy: PLAIN.with_status(ALL_BUT_STATUS),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    columns: &[Column::NAME, Column::text("CIDRs"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR")
};

/// Validates a new ServiceCIDR.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let ranges = spec.field("cidrs");
    if ranges.len() == 0 {
        ranges.required("at least one CIDR required", errors);
    } else if ranges.len() > RANGES_MAX {
        // kube-apiserver prints the whole spec, by its Go names.
        let shown = json!({"CIDRs": ranges.value});
        errors.push(Error::invalid(&ranges.path, &shown, "may only hold up to 2 values"));
    } else {
        check_ranges(&ranges, errors);
    }
}

fn check_ranges(ranges: &ValueAt<'_>, errors: &mut Errors) {
    let mut families = Vec::new();
    for range in ranges.items() {
        if let Err(why) = canonical_range(range.text()) {
            range.invalid(&why, errors);
        }
        families.extend(NetworkRange::parse_any(range.text()).map(|range| range.address.is_ipv4()));
    }
    if let [first, second] = families[..]
        && first == second
    {
        ranges.invalid(FAMILY_TEXT, errors);
    }
}

/// Validates a changed ServiceCIDR: its ranges must not change, but a second one may be added.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
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

fn canonical_range(text: &str) -> Result<(), String> {
    let range = network_range::parse_strictly(text)?;
    let written = format!("{}/{}", range.address, range.bits);
    if written == text { Ok(()) } else { Err(format!("must be in canonical form ({written:?})")) }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::join_strings_at(object, "spec.cidrs", ",").into(),
        age::age_of_object(object, now).into(),
    ]
}
