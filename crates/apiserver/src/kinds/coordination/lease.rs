//! Lease: who holds something, and until when.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

/// Who holds something, and until when.
pub(crate) static LEASE: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate),
    columns: &[Column::NAME, Column::text("Holder"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::namespaced("coordination.k8s.io", "v1", "leases", "Lease")
};

/// A Lease.
fn validate(object: &At<'_>, errors: &mut Errors) {
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
        read::text(object, "spec.holderIdentity").into(),
        age::of(object, now).into(),
    ]
}
