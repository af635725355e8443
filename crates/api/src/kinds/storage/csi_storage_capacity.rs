//! CSIStorageCapacity: says how much storage is available where.

use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;

/// Says how much storage is available where.
pub(crate) static CSI_STORAGE_CAPACITY: BuiltInKind = BuiltInKind {
    strategy: PLAIN.conditional(),
    ..BuiltInKind::namespaced("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
};
