//! CSIStorageCapacity: how much storage is left where.

use crate::kinds::declaration::Kind;
use crate::kinds::strategy::PLAIN;

/// How much storage is left where.
pub(crate) static CSI_STORAGE_CAPACITY: Kind = Kind {
    strategy: PLAIN.conditional(),
    ..Kind::namespaced("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
};
