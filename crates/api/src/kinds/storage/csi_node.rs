//! CSINode: the storage drivers of a node.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// The storage drivers of a node.
pub(crate) static CSI_NODE: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned(),
    columns: &[Column::NAME, Column::number("Drivers"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("storage.k8s.io", "v1", "csinodes", "CSINode")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::list_at(object, "spec.drivers").len().into(),
        age::age_of_object(object, now).into(),
    ]
}
