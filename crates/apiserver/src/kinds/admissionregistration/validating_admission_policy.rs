//! ValidatingAdmissionPolicy: refuses objects on their way in, by expressions.

use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::defaults;
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::table::cells;

/// Refuses objects on their way in, by expressions.
pub(crate) static VALIDATING_ADMISSION_POLICY: Kind = Kind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults::extra::admission_policy),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::number("Validations"), Column::text("ParamKind"), Column::text("Age")],
    cells: Some(cells::admission::validating_policy),
    ..Kind::cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
};
