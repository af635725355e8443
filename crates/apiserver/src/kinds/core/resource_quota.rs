//! ResourceQuota: how much a namespace may use.

use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate;
use crate::table::cells;

/// How much a namespace may use.
pub(crate) static RESOURCE_QUOTA: Kind = Kind {
    short_names: &["quota"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    validate: Some(validate::quota::quota),
    validate_update: Some(validate::quota::quota_update),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("Request"), Column::text("Limit"), Column::text("Age")],
    cells: Some(cells::core::resource_quota),
    ..Kind::namespaced("", "v1", "resourcequotas", "ResourceQuota")
};
