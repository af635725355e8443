//! The cache of one kind as users see it: a wrapper around [`ObjectCache`] that restores the objects' type.
//!
//! **Invariant:** every object in the underlying cache was decoded or written as a `K`.

use std::marker::PhantomData;
use std::sync::Arc;

use homeostat_core::{Key, Revision};
use tokio::sync::watch;

use super::{Delta, Freshness, Index, ObjectCache, WritingRun};
use crate::kind::Kind;
use crate::kind::object::{downcast_object, downcast_objects};

/// A handle to the cache of one kind. Cheap to clone; all clones see the same objects.
pub struct Cache<K: Kind> {
    inner: ObjectCache,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self::from_erased(self.inner.clone())
    }
}

impl<K: Kind> Cache<K> {
    /// Restores the type of a cache of this kind.
    pub(crate) fn from_erased(inner: ObjectCache) -> Self {
        Self { inner, kind: PhantomData }
    }

    pub(crate) fn erased(&self) -> &ObjectCache {
        &self.inner
    }

    /// Returns the object with this key, including our own writes.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.get(key).map(downcast_object)
    }

    /// Returns every object, in order of their keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        downcast_objects(self.inner.list())
    }

    /// Returns every object and its key, in no particular order: sorting a hundred thousand objects costs more than
    /// most uses of them.
    pub(crate) fn entries(&self) -> Vec<(Key, Arc<K>)> {
        self.inner.entries().into_iter().map(|(key, object)| (key, downcast_object(object))).collect()
    }

    /// Returns the objects that name this uid among their owners, in order of their keys.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        downcast_objects(self.inner.owned_by(uid))
    }

    /// Builds an index of the objects by the values that `values` finds in each.
    pub fn index<V, I>(&self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Index::new(self, values)
    }

    /// Returns how many objects the cache contains.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns whether the cache contains no objects.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns the newest revision that this cache is known to include.
    pub fn revision(&self) -> Revision {
        self.inner.revision()
    }

    /// Returns the objects that cannot be decoded, and why.
    pub fn quarantined(&self) -> Vec<(Key, String)> {
        self.inner.quarantined()
    }

    /// Returns the freshness of the cache.
    pub fn freshness(&self) -> Freshness {
        self.inner.freshness()
    }

    /// Returns `group/resource`.
    pub fn resource(&self) -> String {
        self.inner.info().resource.clone()
    }

    /// Calls `subscriber` with every change from now on, in order, from the watch's task.
    pub fn subscribe(&self, subscriber: impl Fn(&Delta<K>) + Send + Sync + 'static) {
        self.inner.subscribe(move |delta| subscriber(&Delta::from_erased(delta)));
    }

    /// Returns a receiver that sees every freshness change.
    pub(crate) fn watch_freshness(&self) -> watch::Receiver<Freshness> {
        self.inner.watch_freshness()
    }

    /// Stores a state that this run wrote: readers see it from now on.
    pub(crate) fn wrote(&self, object: K, writer: WritingRun) {
        self.inner.wrote(Arc::new(object), writer);
    }
}
