//! ServiceAccount: who a Pod is towards the API server.

use crate::kinds::declaration::{CREATE, Kind, Part};
use crate::kinds::prepare;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// Who a Pod is towards the API server.
pub(crate) static SERVICE_ACCOUNT: Kind = Kind {
    short_names: &["sa"],
    subresources: &[Part::with_body("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE)],
    strategy: PLAIN.returned(),
    prepare_create: Some(|_, fields, _| {
        prepare::core::clean_secret_references(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| prepare::core::clean_secret_references(fields)),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(cells::name_and_age),
    ..Kind::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
};
