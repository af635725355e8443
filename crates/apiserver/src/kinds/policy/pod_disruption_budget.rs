//! PodDisruptionBudget: how many Pods may be evicted at once.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::selector;

/// How many Pods may be evicted at once.
pub(crate) static POD_DISRUPTION_BUDGET: Kind = Kind {
    short_names: &["pdb"],
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: WORKLOAD.conditional(),
    first_status: FirstStatus::Fixed(
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
    ..Kind::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
};

/// A PodDisruptionBudget.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let amounts = ["minAvailable", "maxUnavailable"].map(|name| spec.field(name));
    if amounts.iter().all(At::is_set) {
        spec.invalid("minAvailable and maxUnavailable cannot be both set", errors);
    }
    for amount in amounts.iter().filter(|amount| amount.is_set()) {
        amount.must_be_amount_or_percent(errors);
        amount.must_not_exceed_all(errors);
    }
    selector::check(&spec.field("selector"), errors);
    spec.field("unhealthyPodEvictionPolicy").must_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

/// No count of a budget is below zero.
fn validate_status(new: &At<'_>, _: &Value, errors: &mut Errors) {
    let status = new.field("status");
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.field(name).must_not_be_negative(errors);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |path| read::scalar(object, path).unwrap_or_else(|| "N/A".to_owned()).into();
    vec![
        read::name(object).into(),
        bound("spec.minAvailable"),
        bound("spec.maxUnavailable"),
        read::number(object, "status.disruptionsAllowed").into(),
        age::of(object, now).into(),
    ]
}
