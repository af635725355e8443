//! NetworkPolicy: which Pods may talk to which.

use crate::kinds::declaration::{Kind, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Which Pods may talk to which.
pub(crate) static NETWORK_POLICY: Kind = Kind {
    short_names: &["netpol"],
    strategy: PLAIN.counted(),
    defaults: Some(defaults::extra::network_policy),
    validate: Some(validate::network::policy),
    warn_unenforced: Some(warn_only_stored),
    columns: &[Column::NAME, Column::text("Pod-Selector"), Column::text("Age")],
    cells: Some(cells::networking::network_policy),
    ..Kind::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
};
