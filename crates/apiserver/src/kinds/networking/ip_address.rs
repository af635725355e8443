//! IPAddress: an address that is taken.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;
use crate::table::cells;

/// An address that is taken.
pub(crate) static IP_ADDRESS: Kind = Kind {
    short_names: &["ip"],
    strategy: PLAIN.named(NameRule::Any),
    validate_create: Some(validate::address::address_create),
    validate_update: Some(validate::address::address_update),
    columns: &[Column::NAME, Column::text("ParentRef")],
    cells: Some(cells::networking::ip_address),
    ..Kind::cluster_scoped("networking.k8s.io", "v1", "ipaddresses", "IPAddress")
};
