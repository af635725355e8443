//! APIService: who serves a group and version.

use crate::kinds::declaration::{Kind, STATUS, Write, warn_only_stored};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::validate;
use crate::table::cells;

/// Who serves a group and version.
pub(crate) static API_SERVICE: Kind = Kind {
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.conditional().named(NameRule::PathSegment).with_status(ALL_BUT_STATUS),
    validate: Some(validate::control::api_service),
    warn_unenforced: Some(warn_unenforced),
    columns: &[Column::NAME, Column::text("Service"), Column::text("Available"), Column::text("Age")],
    cells: Some(cells::admission::api_service),
    ..Kind::cluster_scoped("apiregistration.k8s.io", "v1", "apiservices", "APIService")
};

/// Warns of services that are not asked here. One without a service is served by this server itself.
fn warn_unenforced(kind: &Kind, write: &Write<'_>) -> Vec<String> {
    if write.new["spec"]["service"].is_null() { Vec::new() } else { warn_only_stored(kind, write) }
}
