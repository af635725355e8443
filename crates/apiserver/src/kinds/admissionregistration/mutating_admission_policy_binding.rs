//! MutatingAdmissionPolicyBinding: where a mutating admission policy applies.

use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::defaults;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// Where a mutating admission policy applies.
pub(crate) static MUTATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults::extra::admission_policy_binding),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("PolicyName"), Column::text("ParamRef"), Column::text("Age")],
    cells: Some(cells::admission::policy_binding),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    )
};
