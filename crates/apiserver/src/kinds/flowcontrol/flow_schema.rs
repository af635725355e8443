//! FlowSchema: which requests belong to which priority level.

use crate::kinds::declaration::{Kind, STATUS, warn_only_stored};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Which requests belong to which priority level.
pub(crate) static FLOW_SCHEMA: Kind = Kind {
    subresources: &[STATUS],
    strategy: PLAIN.counted().with_status(ALL_BUT_STATUS),
    defaults: Some(defaults::extra::flow_schema),
    validate: Some(validate::flow::schema),
    warn_unenforced: Some(warn_only_stored),
    columns: &[
        Column::NAME,
        Column::text("PriorityLevel"),
        Column::text("MatchingPrecedence"),
        Column::text("DistinguisherMethod"),
        Column::text("Age"),
        Column::text("MissingPL"),
    ],
    cells: Some(cells::flowcontrol::flow_schema),
    ..Kind::cluster_scoped("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema")
};
