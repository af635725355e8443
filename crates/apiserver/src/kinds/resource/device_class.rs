//! DeviceClass: a class of devices that can be claimed.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::{Column, name_and_age};
use crate::kinds::strategy::PLAIN;

/// A class of devices that can be claimed.
pub(crate) static DEVICE_CLASS: Kind = Kind {
    strategy: PLAIN.returned().counted(),
    columns: &[Column::NAME, Column::text("Age")],
    cells: Some(name_and_age),
    ..Kind::cluster_scoped("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
};
