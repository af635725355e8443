//! VolumeAttachment: a volume that is to be attached to a node.

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::validate;
use crate::table::cells;

/// A volume that is to be attached to a node.
pub(crate) static VOLUME_ATTACHMENT: Kind = Kind {
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned().with_status(ALL_BUT_STATUS),
    validate: Some(validate::storage::attachment),
    validate_update: Some(validate::storage::attachment_update),
    columns: &[
        Column::NAME,
        Column::names("Attacher"),
        Column::text("PV"),
        Column::text("Node"),
        Column::truth("Attached"),
        Column::text("Age"),
    ],
    cells: Some(cells::storage::volume_attachment),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment")
};
