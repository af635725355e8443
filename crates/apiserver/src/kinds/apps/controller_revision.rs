//! ControllerRevision: an earlier state that a controller can go back to.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::validate;
use crate::table::cells;

/// An earlier state that a controller can go back to.
pub(crate) static CONTROLLER_REVISION: Kind = Kind {
    old_versions: &["v1beta1", "v1beta2"],
    validate: Some(validate::workload::revision),
    validate_create: Some(validate::workload::revision_create),
    validate_update: Some(validate::workload::revision_update),
    columns: &[Column::NAME, Column::text("Controller"), Column::text("Revision"), Column::text("Age")],
    cells: Some(cells::apps::controller_revision),
    ..Kind::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
};
