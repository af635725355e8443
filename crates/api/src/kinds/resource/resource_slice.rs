//! ResourceSlice: the devices of a node.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::PLAIN;

/// The devices of a node.
pub(crate) static RESOURCE_SLICE: BuiltInKind = BuiltInKind {
    strategy: PLAIN.returned().counted(),
    columns: &[
        Column::NAME,
        Column::text("Node"),
        Column::text("Driver"),
        Column::text("Pool"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    selectable: SelectableFields::fields(&[
        ("spec.nodeName", AbsentValue::Empty),
        ("spec.driver", AbsentValue::Empty),
    ])
    .without_namespace(),
    ..BuiltInKind::cluster_scoped("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.nodeName").into(),
        read::string_at(object, "spec.driver").into(),
        read::string_at(object, "spec.pool.name").into(),
        age::age_of_object(object, now).into(),
    ]
}
