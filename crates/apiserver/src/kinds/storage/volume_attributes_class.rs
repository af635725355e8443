//! VolumeAttributesClass: attributes of volumes that can be changed.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::prepare;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;

/// Attributes of volumes that can be changed.
pub(crate) static VOLUME_ATTRIBUTES_CLASS: Kind = Kind {
    short_names: &["vac"],
    strategy: PLAIN.returned(),
    prepare_create: Some(|_, fields, _| {
        prepare::add_finalizer(fields, "kubernetes.io/vac-protection");
        Ok(())
    }),
    columns: &[Column::NAME, Column::text("DriverName"), Column::text("Age")],
    cells: Some(cells),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass")
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "driverName").into(), age::of(object, now).into()]
}
