//! DeviceClass: a class of devices that can be claimed.

use crate::printing::{Column, name_and_age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// A class of devices that can be claimed.
pub(crate) static DEVICE_CLASS: BuiltInKind = BuiltInKind {
    strategy: PLAIN.returned().counted(),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..BuiltInKind::cluster_scoped("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
};
