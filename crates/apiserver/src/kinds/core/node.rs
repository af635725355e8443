//! Node: a machine that runs Pods.

use crate::kinds::declaration::{FirstStatus, Kind, PROXY, Part, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// A machine that runs Pods.
pub(crate) static NODE: Kind = Kind {
    short_names: &["no"],
    subresources: &[Part::with_body("proxy", ("", "", "NodeProxyOptions"), PROXY), STATUS],
    registry_name: Some("minions"),
    strategy: PLAIN.with_status(SPEC),
    defaults: Some(defaults::core::node),
    first_status: FirstStatus::AsSent,
    validate: Some(validate::cluster::node),
    validate_update: Some(validate::cluster::node_update),
    validate_status: Some(validate::cluster::node_update),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Roles"),
        Column::text("Age"),
        Column::text("Version"),
        Column::text("Internal-IP").wide(),
        Column::text("External-IP").wide(),
        Column::text("OS-Image").wide(),
        Column::text("Kernel-Version").wide(),
        Column::text("Container-Runtime").wide(),
    ],
    cells: Some(cells::node::node),
    selectable: Selectable::fields(&[("spec.unschedulable", Absent::False)]).without_namespace(),
    ..Kind::cluster_scoped("", "v1", "nodes", "Node")
};
