//! VolumeAttributesClass: attributes of volumes that can be changed.

use crate::kinds::declaration::Kind;
use crate::kinds::prepare;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::table::cells;

/// Attributes of volumes that can be changed.
pub(crate) static VOLUME_ATTRIBUTES_CLASS: Kind = Kind {
    short_names: &["vac"],
    strategy: PLAIN.returned(),
    prepare_create: Some(|_, fields, _| {
        prepare::core::add_finalizer(fields, "kubernetes.io/vac-protection");
        Ok(())
    }),
    columns: &[Column::NAME, Column::text("DriverName"), Column::text("Age")],
    cells: Some(cells::storage::volume_attributes_class),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass")
};
