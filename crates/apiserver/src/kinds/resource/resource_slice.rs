//! ResourceSlice: devices a node has.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// Devices a node has.
pub(crate) static RESOURCE_SLICE: Kind = Kind {
    strategy: PLAIN.returned().counted(),
    columns: &[
        Column::NAME,
        Column::text("Node"),
        Column::text("Driver"),
        Column::text("Pool"),
        Column::text("Age"),
    ],
    cells: Some(cells::core::resource_slice),
    selectable: Selectable::fields(&[("spec.nodeName", Absent::Empty), ("spec.driver", Absent::Empty)])
        .without_namespace(),
    ..Kind::cluster_scoped("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
};
