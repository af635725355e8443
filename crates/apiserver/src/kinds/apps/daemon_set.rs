//! DaemonSet: keeps a Pod on every node.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

/// Keeps a Pod on every node.
pub(crate) static DAEMON_SET: Kind = Kind {
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults::workloads::daemon_set),
    first_status: FirstStatus::Fixed(
        || json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}),
    ),
    prepare_create: Some(|_, fields, _| {
        prepare::workloads::daemon_set_created(fields);
        Ok(())
    }),
    prepare_update: Some(prepare::workloads::daemon_set_updated),
    validate: Some(validate::workload::daemon_set),
    validate_update: Some(validate::workload::selector_stays),
    validate_status: Some(validate::counts::daemon_set),
    pod_template: Some(PodTemplate {
        path: "spec.template",
        name_is_used_in: "",
        is_judged_when_changed: true,
    }),
    columns: &[
        Column::NAME,
        Column::number("Desired"),
        Column::number("Current"),
        Column::number("Ready"),
        Column::number("Up-to-date"),
        Column::number("Available"),
        Column::text("Node Selector"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::apps::daemon_set),
    ..Kind::namespaced("apps", "v1", "daemonsets", "DaemonSet")
};
