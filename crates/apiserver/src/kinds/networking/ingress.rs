//! Ingress: routes from outside to Services, by host and path.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate;
use crate::table::cells;

/// Routes from outside to Services, by host and path.
pub(crate) static INGRESS: Kind = Kind {
    short_names: &["ing"],
    subresources: &[STATUS],
    registry_name: Some("ingress"),
    strategy: WORKLOAD,
    first_status: FirstStatus::Fixed(|| json!({"loadBalancer": {}})),
    validate: Some(validate::network::ingress),
    validate_create: Some(validate::network::ingress_create),
    validate_status: Some(validate::status::ingress),
    columns: &[
        Column::NAME,
        Column::text("Class"),
        Column::text("Hosts"),
        Column::text("Address"),
        Column::text("Ports"),
        Column::text("Age"),
    ],
    cells: Some(cells::networking::ingress),
    ..Kind::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress")
};
