//! ServiceCIDR: a range that addresses of Services are taken from.

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::validate;
use crate::table::cells;

/// A range that addresses of Services are taken from.
pub(crate) static SERVICE_CIDR: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.with_status(ALL_BUT_STATUS),
    validate_create: Some(validate::address::ranges_create),
    validate_update: Some(validate::address::ranges_update),
    columns: &[Column::NAME, Column::text("CIDRs"), Column::text("Age")],
    cells: Some(cells::networking::service_cidr),
    ..Kind::cluster_scoped("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR")
};
