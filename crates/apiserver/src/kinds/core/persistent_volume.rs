//! PersistentVolume: a piece of storage.

use serde_json::json;

use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, prepare, subresource, validate};
use crate::table::cells;

/// A piece of storage.
pub(crate) static PERSISTENT_VOLUME: Kind = Kind {
    short_names: &["pv"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults::core::persistent_volume),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Pending"})),
    prepare_create: Some(|_, fields, with| {
        prepare::core::volume_created(fields, with.clock);
        Ok(())
    }),
    prepare_status: Some(subresource::note_phase),
    validate: Some(validate::storage::volume),
    validate_update: Some(validate::storage::volume_update),
    columns: &[
        Column::NAME,
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("Reclaim Policy"),
        Column::text("Status"),
        Column::text("Claim"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        Column::text("Reason"),
        Column::text("Age"),
        Column::text("VolumeMode").wide(),
    ],
    cells: Some(cells::storage::persistent_volume),
    ..Kind::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume")
};
