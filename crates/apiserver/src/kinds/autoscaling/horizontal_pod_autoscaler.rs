//! HorizontalPodAutoscaler: follows a load with the number of Pods.

use crate::kinds::autoscaling::versions::{to_storage, to_version};
use crate::kinds::declaration::{Conversion, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, validate};
use crate::object::encode;
use crate::table::cells;

/// Follows a load with the number of Pods, in the version it is stored in.
const HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[STATUS],
    stored_in: ("autoscaling", "v2"),
    conversion: Some(Conversion {
        is_current: |resource, entry| entry.bytes.starts_with(encode::type_prefix(resource).as_bytes()),
        from_stored: to_version,
        to_stored: to_storage,
    }),
    strategy: PLAIN.with_status(SPEC),
    defaults: Some(defaults::extra::autoscaler),
    validate: Some(validate::control::autoscaler),
    columns: &[
        Column::NAME,
        Column::text("Reference"),
        Column::text("Targets"),
        Column::text("MinPods"),
        Column::text("MaxPods"),
        Column::text("Replicas"),
        Column::text("Age"),
    ],
    cells: Some(cells::autoscaling::horizontal_pod_autoscaler),
    ..Kind::namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
};

/// Version v1, which knows one CPU target.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V1: Kind =
    Kind { version: "v1", defaults: Some(defaults::extra::autoscaler_v1), ..HORIZONTAL_POD_AUTOSCALER };

/// Version v2, which knows a list of metrics.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V2: Kind = HORIZONTAL_POD_AUTOSCALER;
