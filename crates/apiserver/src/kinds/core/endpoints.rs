//! Endpoints: the addresses behind a Service, in the older form.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// The addresses behind a Service, in the older form.
pub(crate) static ENDPOINTS: Kind = Kind {
    short_names: &["ep"],
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    registry_name: Some("services/endpoints"),
    strategy: PLAIN.created_by_update(),
    defaults: Some(defaults::core::endpoints),
    validate: Some(validate::network::endpoints),
    columns: &[Column::NAME, Column::text("Endpoints"), Column::text("Age")],
    cells: Some(cells::networking::endpoints),
    ..Kind::namespaced("", "v1", "endpoints", "Endpoints")
};
