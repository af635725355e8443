//! CSINode: the storage drivers of a node.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;

/// The storage drivers of a node.
pub(crate) static CSI_NODE: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned(),
    columns: &[Column::NAME, Column::number("Drivers"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "csinodes", "CSINode")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::list(object, "spec.drivers").len().into(),
        age::of(object, now).into(),
    ]
}
