//! PriorityClass: how important Pods of a class are.

use crate::kinds::declaration::{Kind, Protected};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{Generation, PLAIN, SYSTEM_PRIORITIES};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// How important Pods of a class are.
pub(crate) static PRIORITY_CLASS: Kind = Kind {
    short_names: &["pc"],
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.generation(Generation::Fixed),
    defaults: Some(defaults::extra::priority_class),
    validate: Some(validate::cluster::priority_class),
    validate_update: Some(validate::cluster::priority_class_update),
    protected: Protected {
        names: &[SYSTEM_PRIORITIES[0].0, SYSTEM_PRIORITIES[1].0],
        why: "this is a system priority class and cannot be deleted",
    },
    columns: &[
        Column::NAME,
        Column::number("Value"),
        Column::truth("Global-Default"),
        Column::text("Age"),
        Column::text("PreemptionPolicy"),
    ],
    cells: Some(cells::core::priority_class),
    ..Kind::cluster_scoped("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
};
