//! Manages the caches of an operator, one per kind and scope, which all its controllers share. Asking for a cache
//! declares a watch, which starts with the operator.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use homeostat_core::Entropy;
use homeostat_core::journal::Source;
use kube::Client;

use super::watch_loop::{WatchLoop, feed_cache};
use super::{Index, ObjectCache};
use crate::journal::Journal;
use crate::kind::{Kind, KindInfo};
use crate::watch::Scope;

/// The dependencies that every feed needs.
#[derive(Clone)]
pub(crate) struct FeedDependencies {
    pub(crate) client: Client,
    pub(crate) journal: Journal,
    pub(crate) source: Source,
    pub(crate) entropy: Entropy,
}

impl FeedDependencies {
    /// Returns the task that keeps a cache up to date with the server.
    pub(crate) fn feed(&self, cache: ObjectCache, scope: Scope) -> BoxFuture<'static, ()> {
        let Self { client, journal, source, entropy } = self.clone();
        cache.report_to(journal.clone(), source.clone());
        Box::pin(feed_cache(WatchLoop {
            client,
            cache,
            scope,
            journal,
            source,
            entropy,
            outage: Mutex::default(),
        }))
    }
}

/// All caches of an operator. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Caches(Arc<Mutex<CacheTable>>);

/// Declared caches in the order of declaration, which is also the order in which they are started and shown.
#[derive(Default)]
struct CacheTable {
    by_type: HashMap<(TypeId, Scope), usize>,
    /// Indexes by kind and value type: the type of the value identifies the index.
    indexes: HashMap<(TypeId, TypeId, Scope), Arc<dyn Any + Send + Sync>>,
    all: Vec<(Scope, ObjectCache)>,
}

impl Caches {
    /// Returns the cache of this kind in this scope; declares it if it is new.
    pub(crate) fn declare(&self, info: &'static KindInfo, scope: &Scope) -> ObjectCache {
        let cache = self.declare_events(info, scope);
        cache.keep();
        cache
    }

    /// Returns the watch of this kind in this scope, for callers that need the changes but not the objects: objects are
    /// kept only if another controller declares the cache.
    pub(crate) fn declare_events(&self, info: &'static KindInfo, scope: &Scope) -> ObjectCache {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (info.type_id, scope.clone());
        if let Some(&at) = table.by_type.get(&id) {
            return table.all[at].1.clone();
        }
        let cache = ObjectCache::event_only(info, scope);
        let at = table.all.len();
        table.by_type.insert(id, at);
        table.all.push((scope.clone(), cache.clone()));
        cache
    }

    /// Returns the cache of objects of this type, if declared and kept: the one for this scope, or for the whole
    /// namespace scope.
    pub(crate) fn find(&self, type_id: TypeId, scope: &Scope) -> Option<ObjectCache> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wide = Scope { namespace: scope.namespace.clone(), labels: None };
        let mut declared = [scope.clone(), wide].into_iter().filter_map(|scope| {
            let at = *table.by_type.get(&(type_id, scope))?;
            Some(table.all[at].1.clone()).filter(ObjectCache::is_kept)
        });
        declared.next()
    }

    /// Keeps an index on a declared cache.
    pub(crate) fn keep_index<K: Kind, V: Send + Sync + 'static>(&self, scope: &Scope, index: Index<K, V>) {
        let id = (TypeId::of::<K>(), TypeId::of::<V>(), scope.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).indexes.insert(id, Arc::new(index));
    }

    /// Returns the index of this kind by this type of value.
    pub(crate) fn find_index<K: Kind, V: Send + Sync + 'static>(&self, scope: &Scope) -> Option<Index<K, V>> {
        let id = (TypeId::of::<K>(), TypeId::of::<V>(), scope.clone());
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.indexes.get(&id)?.downcast_ref::<Index<K, V>>().cloned()
    }

    pub(crate) fn all(&self) -> Vec<(Scope, ObjectCache)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }
}
