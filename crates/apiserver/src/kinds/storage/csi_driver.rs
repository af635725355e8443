//! CSIDriver: a storage driver and what it can do.

use crate::kinds::declaration::Kind;
use crate::kinds::defaults;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// A storage driver and what it can do.
pub(crate) static CSI_DRIVER: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned(),
    defaults: Some(defaults::extra::csi_driver),
    columns: &[
        Column::NAME,
        Column::truth("AttachRequired"),
        Column::truth("PodInfoOnMount"),
        Column::truth("StorageCapacity"),
        Column::text("TokenRequests"),
        Column::truth("RequiresRepublish"),
        Column::text("Modes"),
        Column::text("Age"),
    ],
    cells: Some(cells::storage::csi_driver),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
};
