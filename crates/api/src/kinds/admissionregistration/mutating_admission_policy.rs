//! MutatingAdmissionPolicy: changes objects by expressions when they are written.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::validating_admission_policy;
use crate::printing::Column;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Changes objects by expressions when they are written.
pub static MUTATING_ADMISSION_POLICY: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(validating_admission_policy::defaults),
    columns: &[Column::NAME, Column::number("Mutations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    validating_admission_policy::policy(object, now, "spec.mutations")
}
