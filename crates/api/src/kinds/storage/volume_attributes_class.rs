//! VolumeAttributesClass: attributes of volumes that can be changed.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Attributes of volumes that can be changed.
pub static VOLUME_ATTRIBUTES_CLASS: BuiltInKind = BuiltInKind {
    short_names: &["vac"],
    strategy: PLAIN.returned(),
    columns: &[Column::NAME, Column::text("DriverName"), Column::text("Age")],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::text(object, "driverName").into(),
        age::age_of_object(object, now).into(),
    ]
}
