//! PodDisruptionBudget: how many Pods may be evicted at once.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate;
use crate::table::cells;

/// How many Pods may be evicted at once.
pub(crate) static POD_DISRUPTION_BUDGET: Kind = Kind {
    short_names: &["pdb"],
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: WORKLOAD.conditional(),
    first_status: FirstStatus::Fixed(
        || json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
    ),
    validate: Some(validate::cluster::budget),
    validate_status: Some(validate::status::budget),
    columns: &[
        Column::NAME,
        Column::text("Min Available"),
        Column::text("Max Unavailable"),
        Column::number("Allowed Disruptions"),
        Column::text("Age"),
    ],
    cells: Some(cells::core::pod_disruption_budget),
    ..Kind::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
};
