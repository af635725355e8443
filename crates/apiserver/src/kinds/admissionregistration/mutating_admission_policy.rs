//! MutatingAdmissionPolicy: changes objects on their way in, by expressions.

use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::defaults;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// Changes objects on their way in, by expressions.
pub(crate) static MUTATING_ADMISSION_POLICY: Kind = Kind {
    categories: &["api-extensions"],
    strategy: PLAIN.counted().conditional(),
    defaults: Some(defaults::extra::admission_policy),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Mutations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells::admission::mutating_policy),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
};
