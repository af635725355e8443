//! Lease: says who holds a lock, and until when.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Says who holds a lock, and until when.
pub(crate) static LEASE: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate),
    columns: &[Column::NAME, Column::text("Holder"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("coordination.k8s.io", "v1", "leases", "Lease")
};

/// Validates a Lease.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    spec.field("leaseDurationSeconds").must_be_positive(errors);
    spec.field("leaseTransitions").must_not_be_negative(errors);
    if !spec.field("preferredHolder").is_zero() && spec.field("strategy").is_zero() {
        spec.field("preferredHolder").forbidden("may only be specified if `strategy` is defined", errors);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.holderIdentity").into(),
        age::age_of_object(object, now).into(),
    ]
}
