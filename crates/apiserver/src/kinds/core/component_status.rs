//! ComponentStatus: the health of the control plane's parts, which nobody reports any more.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::table::cells;

/// The health of the control plane's parts, which nobody reports any more.
pub(crate) static COMPONENT_STATUS: Kind = Kind {
    verbs: &["get", "list"],
    short_names: &["cs"],
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: &[Column::NAME, Column::text("Status"), Column::text("Message"), Column::text("Error")],
    cells: Some(cells::core::component_status),
    ..Kind::cluster_scoped("", "v1", "componentstatuses", "ComponentStatus")
};
