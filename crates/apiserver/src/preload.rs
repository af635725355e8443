//! Fills a store with the objects of another server, exactly as they are stored there. It bypasses the write path, so
//! that no default, admission plugin or new uid changes them. A server that is built on the store afterwards continues
//! from there.
//!
//! **Invariant:** an object keeps every field except its resourceVersion, which the store assigns.

use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_core::Key;
use homeostat_store::{Error, Expect, Op, SharedStore, Txn};
use serde_json::Value;

use crate::backend::key_of;
use crate::registry::Registry;
use crate::stored::convert;

/// A store that is being populated.
pub struct Preload {
    store: SharedStore,
    registry: Registry,
}

/// A kind whose objects the store can hold, in one of the versions in which the server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKind {
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Kind.
    pub kind: String,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
}

impl StoredKind {
    fn of_row(row: &Resource) -> Self {
        Self {
            group: row.group.to_string(),
            version: row.version.to_string(),
            plural: row.plural.to_string(),
            kind: row.kind.to_string(),
            is_namespaced: row.namespaced,
        }
    }

    /// Returns `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path of the collection, for one namespace or for all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => {
                format!("{root}/{}/namespaces/{namespace}/{}", self.api_version(), self.plural)
            }
            None => format!("{root}/{}/{}", self.api_version(), self.plural),
        }
    }

    /// Returns a name such as `deployments.apps`, as kubectl names resources.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group).trim_end_matches('.').to_owned()
    }
}

impl Preload {
    /// Stores these CustomResourceDefinitions, so that the store can hold objects of their kinds.
    ///
    /// # Errors
    /// Fails if the store refuses them.
    pub async fn new(store: SharedStore, definitions: &[Value]) -> Result<Self, Error> {
        let registry = Registry::new(store.clone())?;
        let preload = Self { store, registry };
        preload.add(definitions).await?;
        Ok(preload)
    }

    /// Returns the kinds that the store can hold, without duplicates.
    pub fn kinds(&self) -> Vec<StoredKind> {
        self.registry.table().stored().into_values().map(|row| StoredKind::of_row(row)).collect()
    }

    /// Returns the kind of an object in exactly this version.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StoredKind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.registry.table().by_kind(group, version, kind).map(|row| StoredKind::of_row(row))
    }

    /// Stores these objects, skipping those of unknown kinds.
    ///
    /// # Errors
    /// Fails if the store refuses them.
    pub async fn add(&self, objects: &[Value]) -> Result<(), Error> {
        let table = self.registry.table();
        let step = |object: &Value| {
            let api_version = object["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let row = table.by_kind(group, version, object["kind"].as_str().unwrap_or_default())?;
            let key = key_of(row, meta::namespace(object), meta::name(object));
            Some((key, Expect::Any, Op::Put(convert::encode_from_version(row, object))))
        };
        let steps: Vec<_> = objects.iter().filter_map(step).collect();
        if !steps.is_empty() {
            self.store.commit(Txn { steps }).await?;
        }
        Ok(())
    }
}

/// Returns the objects in a store with their keys, except for the server's own bookkeeping.
pub fn stored_objects(snapshot: &homeostat_store::Snapshot) -> Vec<(Key, Value)> {
    let is_object = |value: &Value| value.get("kind").is_some() && value.get("metadata").is_some();
    let all = snapshot.iter().filter_map(|entry| {
        let value: Value = serde_json::from_slice(&entry.bytes).ok()?;
        is_object(&value).then(|| (entry.key.clone(), value))
    });
    all.collect()
}
