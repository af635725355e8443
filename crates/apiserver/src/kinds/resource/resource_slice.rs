//! ResourceSlice: devices a node has.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::PLAIN;

/// Devices a node has.
pub(crate) static RESOURCE_SLICE: Kind = Kind {
    strategy: PLAIN.returned().counted(),
    columns: &[
        Column::NAME,
        Column::text("Node"),
        Column::text("Driver"),
        Column::text("Pool"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    selectable: Selectable::fields(&[("spec.nodeName", Absent::Empty), ("spec.driver", Absent::Empty)])
        .without_namespace(),
    ..Kind::cluster_scoped("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::text(object, "spec.nodeName").into(),
        read::text(object, "spec.driver").into(),
        read::text(object, "spec.pool.name").into(),
        age::of(object, now).into(),
    ]
}
