//! ReplicaSet: keeps a number of Pods.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Keeps a number of Pods.
pub(crate) static REPLICA_SET: Kind = Kind {
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults::workloads::replica_set),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0})),
    validate: Some(validate::workload::replica_set),
    validate_update: Some(validate::workload::selector_stays),
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
    cells: Some(cells::apps::replica_set),
    ..Kind::namespaced("apps", "v1", "replicasets", "ReplicaSet")
};
