//! PriorityLevelConfiguration: how many requests of a level are served at once.

use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// How many requests of a level are served at once.
pub(crate) static PRIORITY_LEVEL_CONFIGURATION: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.counted().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults::extra::priority_level),
    validate: Some(validate::flow::level),
    warn_unenforced: Some(warn_only_stored),
    columns: &[
        Column::NAME,
        Column::text("Type"),
        Column::text("NominalConcurrencyShares"),
        Column::text("Queues"),
        Column::text("HandSize"),
        Column::text("QueueLengthLimit"),
        Column::text("Age"),
    ],
    cells: Some(cells::flowcontrol::priority_level),
    ..Kind::cluster_scoped(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
    )
};
