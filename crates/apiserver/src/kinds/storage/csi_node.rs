//! CSINode: the storage drivers of a node.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// The storage drivers of a node.
pub(crate) static CSI_NODE: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned(),
    columns: &[Column::NAME, Column::number("Drivers"), Column::text("Age")],
    cells: Some(cells::storage::csi_node),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "csinodes", "CSINode")
};
