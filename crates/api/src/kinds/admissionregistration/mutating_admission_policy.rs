//! MutatingAdmissionPolicy: uses expressions to change objects when they are written.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::admissionregistration::expressions::{check_expression, check_policy};
use crate::kinds::admissionregistration::validating_admission_policy;
use crate::printing::Column;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};
use crate::schema::CelResultType;

/// Uses expressions to change objects when they are written.
pub static MUTATING_ADMISSION_POLICY: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(validating_admission_policy::defaults),
    validate: Some(validate),
    columns: &[Column::NAME, Column::number("Mutations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
};

fn validate(policy: &ValueAt<'_>, errors: &mut Errors) {
    let scope = check_policy(policy, errors);
    for mutation in policy.field("spec").field("mutations").items() {
        for field in ["applyConfiguration", "jsonPatch"] {
            let part = mutation.field(field);
            if part.is_set() {
                check_expression(&part.field("expression"), &scope, CelResultType::Unchecked, errors);
            }
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    validating_admission_policy::policy(object, now, "spec.mutations")
}
