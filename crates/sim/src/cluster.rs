//! The cluster as the user's conditions see it: everything that is stored at one point in time.

use std::sync::Arc;

use homeostat_core::Revision;
use homeostat_runtime::Kind;
use homeostat_store::{Entry, Snapshot};

use crate::resource_name::{DEFAULT_NAMESPACE, ResourceName};

/// Everything that is stored at one point in time.
#[derive(Clone, Debug)]
pub struct Cluster {
    snapshot: Snapshot,
    /// The revision up to which a new cluster writes its own objects.
    born: Revision,
    outside: String,
}

impl Cluster {
    pub(crate) fn new(snapshot: Snapshot, born: Revision, outside: String) -> Self {
        Self { snapshot, born, outside }
    }

    /// Returns the number of objects of this kind in all namespaces. Those that every cluster has do not count.
    pub fn count<K: Kind>(&self) -> usize {
        self.entries::<K>().len()
    }

    /// Returns the objects of this kind, by namespace and name. Those that every cluster has are left out.
    pub fn list<K: Kind>(&self) -> Vec<K> {
        self.entries::<K>().iter().filter_map(|entry| serde_json::from_slice(&entry.bytes).ok()).collect()
    }

    /// Returns the object of this name, in the namespace `default` unless given as `namespace/name`.
    pub fn get<K: Kind>(&self, name: &str) -> Option<K> {
        let (namespace, name) = name.split_once('/').unwrap_or((DEFAULT_NAMESPACE, name));
        self.list::<K>().into_iter().find(|object| {
            let meta = object.meta();
            let is_there = meta.namespace.as_deref().is_none_or(|own| own == namespace);
            is_there && meta.name.as_deref() == Some(name)
        })
    }

    /// Returns the `Debug` form of the state outside the cluster; empty if there is none.
    pub fn outside(&self) -> &str {
        &self.outside
    }

    fn entries<K: Kind>(&self) -> Vec<Arc<Entry>> {
        let is_own =
            |entry: &&Arc<Entry>| entry.revision > self.born && entry.key.name() != "kube-root-ca.crt";
        let mut entries = Vec::new();
        for prefix in ResourceName::of_kind::<K>().prefixes() {
            entries.extend(self.snapshot.range(&prefix, "").filter(is_own).cloned());
        }
        entries
    }
}
