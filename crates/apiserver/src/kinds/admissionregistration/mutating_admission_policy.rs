//! MutatingAdmissionPolicy: changes objects on their way in, by expressions.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::validating_admission_policy;
use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;

/// Changes objects on their way in, by expressions.
pub(crate) static MUTATING_ADMISSION_POLICY: Kind = Kind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(validating_admission_policy::defaults),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Mutations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    validating_admission_policy::policy(object, now, "spec.mutations")
}
