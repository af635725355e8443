//! StorageClass: how storage of a class is made.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// How storage of a class is made.
pub(crate) static STORAGE_CLASS: Kind = Kind {
    short_names: &["sc"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.returned(),
    defaults: Some(defaults::extra::storage_class),
    validate: Some(validate::storage::class),
    validate_update: Some(validate::storage::class_update),
    columns: &[
        Column::NAME,
        Column::text("Provisioner"),
        Column::text("ReclaimPolicy"),
        Column::text("VolumeBindingMode"),
        Column::text("AllowVolumeExpansion"),
        Column::text("Age"),
    ],
    cells: Some(cells::storage::storage_class),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "storageclasses", "StorageClass")
};
