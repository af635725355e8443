//! EndpointSlice: some of the addresses behind a Service.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::{Generation, PLAIN};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Some of the addresses behind a Service.
pub(crate) static ENDPOINT_SLICE: Kind = Kind {
    strategy: PLAIN.generation(Generation::ContentAndLabels),
    defaults: Some(defaults::extra::endpoint_slice),
    validate: Some(validate::network::endpoint_slice),
    validate_create: Some(validate::network::endpoint_slice_create),
    validate_update: Some(validate::network::endpoint_slice_update),
    columns: &[
        Column::NAME,
        Column::text("AddressType"),
        Column::text("Ports"),
        Column::text("Endpoints"),
        Column::text("Age"),
    ],
    cells: Some(cells::networking::endpoint_slice),
    ..Kind::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
};
