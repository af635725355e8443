//! Reads from the shared cache, never from the server. A cache that has not seen the whole state yet returns an error
//! instead of a wrong "not found".

use std::sync::Arc;

use homeostat_core::journal::{Entry, WatchState};

use super::{Context, ReconcileRun};
use crate::cache::ObjectCache;
use crate::error::Error;
use crate::kind::object::{Object, downcast_object, downcast_objects};
use crate::kind::{Kind, KindInfo, ObjectName, info};

impl<K: Kind> Context<K> {
    /// Returns the object with this name (in our namespace) or this namespace and name.
    pub fn get<T: Kind>(&self, target: impl Into<ObjectName>) -> Result<Option<Arc<T>>, Error> {
        Ok(self.run.get(info::<T>(), &target.into())?.map(downcast_object))
    }

    /// Returns every object of this kind that the operator watches, ordered by namespace and name.
    pub fn list<T: Kind>(&self) -> Result<Vec<Arc<T>>, Error> {
        Ok(downcast_objects(self.run.synced(info::<T>())?.list()))
    }

    /// Returns the objects of this kind that name ours as an owner, ordered by name.
    pub fn owned<T: Kind>(&self) -> Result<Vec<Arc<T>>, Error> {
        Ok(downcast_objects(self.run.owned(info::<T>())?))
    }

    /// Returns the objects of this kind with this value in the index declared by
    /// [`Controller::index`](crate::Controller::index), in order of namespace and name.
    pub fn indexed<T: Kind, V>(&self, value: &V) -> Result<Vec<Arc<T>>, Error>
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
    {
        self.run.synced(info::<T>())?;
        let shared = &self.run.controller.operator;
        let index = shared.caches.find_index::<T, V>(&shared.scope);
        let index = index.ok_or_else(|| Error::NotDeclared {
            resource: format!("{} by {}", info::<T>().resource, std::any::type_name::<V>()),
        })?;
        Ok(index.get(value))
    }
}

impl ReconcileRun {
    fn get(&self, info: &KindInfo, target: &ObjectName) -> Result<Option<Arc<Object>>, Error> {
        let key = info.target_key(target, self.key.namespace());
        let found = self.synced(info)?.get(&key);
        let revision = found.as_ref().map(|object| object.revision());
        let entry = Entry::Read { object: self.key.clone(), read: key, revision };
        self.controller.operator.journal.record(&self.controller.source, entry);
        Ok(found)
    }

    pub(super) fn owned(&self, info: &KindInfo) -> Result<Vec<Arc<Object>>, Error> {
        let cache = self.synced(info)?;
        Ok(self.object.meta().uid.as_deref().map(|uid| cache.owned_by(uid)).unwrap_or_default())
    }

    /// Returns the cache of this kind, if it can be trusted.
    pub(super) fn synced(&self, info: &KindInfo) -> Result<ObjectCache, Error> {
        let cache = self.cache(info)?;
        let freshness = cache.freshness();
        if freshness.is_synced {
            return Ok(cache);
        }
        let reason = match freshness.state {
            WatchState::Failing { error, .. } => error,
            WatchState::Listing | WatchState::Fresh => "its first list is in progress".to_owned(),
        };
        Err(Error::NotSynced { resource: info.resource.clone(), reason })
    }

    pub(super) fn cache(&self, info: &KindInfo) -> Result<ObjectCache, Error> {
        let found = self.controller.operator.caches.find(info.type_id, &self.controller.scope);
        found.ok_or_else(|| {
            let resource = info.resource.clone();
            match self.metadata_cache(info) {
                Some(_) => Error::MetadataOnly { resource, kind: info.kind.clone() },
                None => Error::NotDeclared { resource },
            }
        })
    }

    /// Returns the metadata-only cache of this kind.
    pub(super) fn metadata_cache(&self, info: &KindInfo) -> Option<ObjectCache> {
        self.controller.operator.caches.find(info.metadata_type_id, &self.controller.scope)
    }

    /// Returns the metadata-only cache of this kind, if it can be trusted.
    pub(super) fn synced_metadata(&self, info: &KindInfo) -> Option<ObjectCache> {
        self.metadata_cache(info).filter(|cache| cache.freshness().is_synced)
    }
}
