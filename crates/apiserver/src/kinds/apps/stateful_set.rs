//! StatefulSet: keeps a number of Pods with names and storage of their own.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Keeps a number of Pods with names and storage of their own.
pub(crate) static STATEFUL_SET: Kind = Kind {
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta1", "v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults::workloads::stateful_set),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0, "availableReplicas": 0})),
    validate: Some(validate::workload::stateful_set),
    validate_update: Some(validate::workload::stateful_set_update),
    validate_status: Some(validate::counts::stateful_set),
    pod_template: Some(PodTemplate {
        path: "spec.template",
        name_is_used_in: "",
        is_judged_when_changed: true,
    }),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
    ],
    cells: Some(cells::apps::stateful_set),
    ..Kind::namespaced("apps", "v1", "statefulsets", "StatefulSet")
};
