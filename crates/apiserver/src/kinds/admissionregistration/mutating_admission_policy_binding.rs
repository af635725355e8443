//! MutatingAdmissionPolicyBinding: where a mutating admission policy applies.

use crate::kinds::admissionregistration::validating_admission_policy_binding;
use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;

/// Where a mutating admission policy applies.
pub(crate) static MUTATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(validating_admission_policy_binding::defaults),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("PolicyName"), Column::text("ParamRef"), Column::text("Age")],
    cells: Some(validating_admission_policy_binding::cells),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    )
};
