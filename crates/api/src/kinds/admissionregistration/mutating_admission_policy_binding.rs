//! MutatingAdmissionPolicyBinding: says where a mutating admission policy applies.

use crate::kinds::admissionregistration::validating_admission_policy_binding;
use crate::printing::Column;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Says where a mutating admission policy applies.
pub static MUTATING_ADMISSION_POLICY_BINDING: BuiltInKind = BuiltInKind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(validating_admission_policy_binding::defaults),
    columns: &[Column::NAME, Column::text("PolicyName"), Column::text("ParamRef"), Column::text("Age")],
    cells: Some(validating_admission_policy_binding::cells),
    ..BuiltInKind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    )
};
