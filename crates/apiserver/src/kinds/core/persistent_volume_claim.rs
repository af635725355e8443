//! PersistentVolumeClaim: a request for storage.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

/// A request for storage.
pub(crate) static PERSISTENT_VOLUME_CLAIM: Kind = Kind {
    short_names: &["pvc"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults::core::persistent_volume_claim),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Pending"})),
    prepare_create: Some(|_, fields, _| {
        prepare::core::add_finalizer(fields, "kubernetes.io/pvc-protection");
        Ok(())
    }),
    validate: Some(validate::storage::claim),
    validate_update: Some(validate::storage::claim_update),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Volume"),
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        Column::text("Age"),
        Column::text("VolumeMode").wide(),
    ],
    cells: Some(cells::storage::persistent_volume_claim),
    ..Kind::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
};
