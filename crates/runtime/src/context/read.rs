//! Reading: from the shared cache, never from the server. A cache that has not seen the whole state yet answers with
//! an error instead of a wrong "there is none".

use std::sync::Arc;

use homeostat_core::journal::{Entry, WatchState};

use super::Context;
use crate::cache::Cache;
use crate::error::Error;
use crate::kind::{Kind, Target, resource_of, revision_of};

impl<K: Kind> Context<K> {
    /// The object with this name (in our namespace) or this namespace and name.
    pub fn get<T: Kind>(&self, target: impl Into<Target>) -> Result<Option<Arc<T>>, Error> {
        let key = target.into().key::<T>(self.0.key.namespace());
        let found = self.synced::<T>()?.get(&key);
        let engine = &self.0.engine;
        let revision = found.as_ref().map(|object| revision_of(&**object));
        engine
            .ground
            .journal
            .record(&engine.source, Entry::Read { object: self.0.key.clone(), read: key, revision });
        Ok(found)
    }

    /// Every object of this kind that the operator watches, in order of namespace and name.
    pub fn list<T: Kind>(&self) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.synced::<T>()?.list())
    }

    /// The objects of this kind that name ours as an owner, in order of their names.
    pub fn owned<T: Kind>(&self) -> Result<Vec<Arc<T>>, Error> {
        let cache = self.synced::<T>()?;
        Ok(self.0.object.meta().uid.as_deref().map(|uid| cache.owned_by(uid)).unwrap_or_default())
    }

    /// The objects of this kind with this value in the index declared by
    /// [`Controller::index`](crate::Controller::index), in order of namespace and name.
    pub fn indexed<T: Kind, V>(&self, value: &V) -> Result<Vec<Arc<T>>, Error>
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
    {
        self.synced::<T>()?;
        let ground = &self.0.engine.ground;
        let index = ground.caches.find_index::<T, V>(&ground.scope);
        let index = index.ok_or_else(|| Error::NotDeclared {
            resource: format!("{} by {}", resource_of::<T>(), std::any::type_name::<V>()),
        })?;
        Ok(index.get(value))
    }

    /// The cache of this kind, if it can be trusted.
    pub(super) fn synced<T: Kind>(&self) -> Result<Cache<T>, Error> {
        let cache = self.cache::<T>()?;
        let freshness = cache.freshness();
        if freshness.is_synced {
            return Ok(cache);
        }
        let reason = match freshness.state {
            WatchState::Failing { error, .. } => error,
            WatchState::Listing | WatchState::Fresh => "its first list is under way".to_owned(),
        };
        Err(Error::NotSynced { resource: resource_of::<T>(), reason })
    }

    pub(super) fn cache<T: Kind>(&self) -> Result<Cache<T>, Error> {
        self.0.engine.ground.caches.find(&self.0.engine.scope)
    }
}
