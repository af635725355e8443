//! Service: one address for a set of Pods.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, PROXY, Part, STATUS};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::service::normalize;
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// One address for a set of Pods.
pub(crate) static SERVICE: Kind = Kind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[Part::with_body("proxy", ("", "", "ServiceProxyOptions"), PROXY), STATUS],
    registry_name: Some("services/specs"),
    strategy: PLAIN.created_by_update().returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults::core::service),
    first_status: FirstStatus::Fixed(|| json!({"loadBalancer": {}})),
    prepare_create: Some(|_, fields, _| {
        normalize(fields, None);
        Ok(())
    }),
    prepare_update: Some(|fields, old| normalize(fields, Some(old))),
    has_cluster_addresses: true,
    validate: Some(validate::service::service),
    validate_update: Some(validate::service::service_update),
    validate_status: Some(validate::status::service),
    columns: &[
        Column::NAME,
        Column::text("Type"),
        Column::text("Cluster-IP"),
        Column::text("External-IP"),
        Column::text("Port(s)"),
        Column::text("Age"),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::service::service),
    selectable: Selectable::fields(&[("spec.clusterIP", Absent::Empty), ("spec.type", Absent::Empty)]),
    ..Kind::namespaced("", "v1", "services", "Service")
};
