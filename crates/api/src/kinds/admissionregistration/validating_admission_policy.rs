//! ValidatingAdmissionPolicy: refuses objects by expressions when they are written.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::matching;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};

/// Refuses objects by expressions when they are written.
pub static VALIDATING_ADMISSION_POLICY: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults),
    columns: &[Column::NAME, Column::number("Validations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
};

/// Fills in the defaults of a ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
pub(in crate::kinds) fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_absent(spec, "failurePolicy", "Fail");
    if let Some(constraints) = object_mut(spec, "matchConstraints") {
        matching::match_resources(constraints);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, now, "spec.validations")
}

pub(in crate::kinds) fn policy(object: &Value, now: Timestamp, rules: &str) -> Vec<Value> {
    let parameters = read::at(object, "spec.paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", read::text(kind, "apiVersion"), read::text(kind, "kind")),
    );
    vec![
        read::name(object).into(),
        read::list(object, rules).len().into(),
        parameters.into(),
        age::age_of_object(object, now).into(),
    ]
}
