//! ConfigMap: configuration for Pods to read.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::validate;
use crate::table::cells;

/// Configuration for Pods to read.
pub(crate) static CONFIG_MAP: Kind = Kind {
    short_names: &["cm"],
    validate: Some(validate::config::config_map),
    validate_update: Some(validate::config::config_map_update),
    columns: &[Column::NAME, Column::text("Data"), Column::text("Age")],
    cells: Some(cells::core::config_map),
    ..Kind::namespaced("", "v1", "configmaps", "ConfigMap")
};
