//! Lease: who holds something, and until when.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;
use crate::table::cells;

/// Who holds something, and until when.
pub(crate) static LEASE: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate::cluster::lease),
    columns: &[Column::NAME, Column::text("Holder"), Column::text("Age")],
    cells: Some(cells::core::lease),
    ..Kind::namespaced("coordination.k8s.io", "v1", "leases", "Lease")
};
