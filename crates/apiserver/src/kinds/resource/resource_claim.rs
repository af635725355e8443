//! ResourceClaim: a request for devices.

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::table::cells;

/// A request for devices.
pub(crate) static RESOURCE_CLAIM: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(ALL_BUT_STATUS),
    columns: &[Column::NAME, Column::text("State"), Column::text("Age")],
    cells: Some(cells::core::resource_claim),
    ..Kind::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
};
