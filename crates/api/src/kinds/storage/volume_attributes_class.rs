//! VolumeAttributesClass: mutable attributes of volumes.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Mutable attributes of volumes.
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
        read::string_at(object, "driverName").into(),
        age::age_of_object(object, now).into(),
    ]
}
