//! PodDisruptionBudget: limits how many Pods may be evicted at the same time.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::subresource::STATUS;
use crate::kinds::validate::selector;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, InitialStatus};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

/// Limits how many Pods may be evicted at the same time.
pub static POD_DISRUPTION_BUDGET: BuiltInKind = BuiltInKind {
    short_names: &["pdb"],
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: WORKLOAD.conditional(),
    first_status: InitialStatus::Fixed(
        || json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
    ),
    validate: Some(validate),
    validate_status: Some(validate_status),
    columns: &[
        Column::NAME,
        Column::text("Min Available"),
        Column::text("Max Unavailable"),
        Column::number("Allowed Disruptions"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
};

/// Validates a PodDisruptionBudget.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let amounts = ["minAvailable", "maxUnavailable"].map(|name| spec.field(name));
    if amounts.iter().all(ValueAt::is_set) {
        spec.invalid("minAvailable and maxUnavailable cannot be both set", errors);
    }
    for amount in amounts.iter().filter(|amount| amount.is_set()) {
        amount.must_be_amount_or_percent(errors);
        amount.must_not_exceed_all(errors);
    }
    selector::validate_label_selector(&spec.field("selector"), errors);
    spec.field("unhealthyPodEvictionPolicy").must_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

/// Rejects negative counts in the status of a budget.
fn validate_status(new: &ValueAt<'_>, _: &Value, errors: &mut Errors) {
    let status = new.field("status");
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.field(name).must_not_be_negative(errors);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |path| read::scalar_at(object, path).unwrap_or_else(|| "N/A".to_owned()).into();
    vec![
        read::name(object).into(),
        bound("spec.minAvailable"),
        bound("spec.maxUnavailable"),
        read::integer_at(object, "status.disruptionsAllowed").into(),
        age::age_of_object(object, now).into(),
    ]
}
