//! ReplicationController: keeps a number of Pods, in the older form.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Keeps a number of Pods, in the older form.
pub(crate) static REPLICATION_CONTROLLER: Kind = Kind {
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    registry_name: Some("controllers"),
    strategy: WORKLOAD.orphaning(),
    defaults: Some(defaults::workloads::replication_controller),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0})),
    validate: Some(validate::workload::replication_controller),
    validate_status: Some(validate::counts::replica_set),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    columns: &[
        Column::NAME,
        Column::number("Desired"),
        Column::number("Current"),
        Column::number("Ready"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::core::replication_controller),
    selectable: Selectable::fields(&[("status.replicas", Absent::Zero)]),
    ..Kind::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
};
