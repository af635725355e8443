//! The caches of an operator, one per kind and scope, shared by all its controllers. Asking for a cache is declaring
//! a watch: it starts with the operator.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use homeostat_core::journal::Source;
use homeostat_core::{Entropy, Key};
use kube::Client;
use tokio::sync::watch;

use crate::cache::{Cache, Freshness, Index};
use crate::error::Error;
use crate::journal::Journal;
use crate::kind::{Kind, resource_of};
use crate::watch::{Feed, Scope, drive};

/// What a cache looks like from outside its type.
pub(crate) trait AnyCache: Send + Sync {
    fn resource(&self) -> String;
    fn len(&self) -> usize;
    fn freshness(&self) -> Freshness;
    fn watch_freshness(&self) -> watch::Receiver<Freshness>;
    fn quarantined(&self) -> Vec<(Key, String)>;
    /// The task that keeps it in step with the server.
    fn feed(&self, supply: &Supply, scope: Scope) -> BoxFuture<'static, ()>;
    fn as_any(&self) -> &dyn Any;
}

/// What every feed needs.
#[derive(Clone)]
pub(crate) struct Supply {
    pub(crate) client: Client,
    pub(crate) journal: Journal,
    pub(crate) source: Source,
    pub(crate) entropy: Entropy,
}

impl<K: Kind> AnyCache for Cache<K> {
    fn resource(&self) -> String {
        Self::resource(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn freshness(&self) -> Freshness {
        Self::freshness(self)
    }

    fn watch_freshness(&self) -> watch::Receiver<Freshness> {
        Self::watch_freshness(self)
    }

    fn quarantined(&self) -> Vec<(Key, String)> {
        Self::quarantined(self)
    }

    fn feed(&self, supply: &Supply, scope: Scope) -> BoxFuture<'static, ()> {
        let Supply { client, journal, source, entropy } = supply.clone();
        self.report_to(journal.clone(), source.clone());
        let (cache, outage) = (self.clone(), Mutex::default());
        Box::pin(drive(Feed { client, cache, scope, journal, source, entropy, outage }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All caches of an operator. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Caches(Arc<Mutex<Table>>);

/// Declared caches in the order of declaration, which is the order they are started and shown in.
#[derive(Default)]
struct Table {
    by_type: HashMap<(TypeId, Scope), usize>,
    /// By kind and value type: the type of the value is the name of the index.
    indexes: HashMap<(TypeId, TypeId, Scope), Arc<dyn Any + Send + Sync>>,
    all: Vec<(Scope, Arc<dyn AnyCache>)>,
}

impl Caches {
    /// The cache of this kind in this scope; declares it if it is new.
    pub(crate) fn declare<K: Kind>(&self, scope: &Scope) -> Cache<K> {
        let cache = self.declare_events::<K>(scope);
        cache.keep();
        cache
    }

    /// The watch of this kind in this scope, for whoever needs its changes and not the objects: they are kept only if
    /// somebody else declares the cache.
    pub(crate) fn declare_events<K: Kind>(&self, scope: &Scope) -> Cache<K> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (TypeId::of::<K>(), scope.clone());
        if let Some(&at) = table.by_type.get(&id) {
            return typed(&table.all[at].1);
        }
        let cache = Cache::<K>::passing(scope);
        let at = table.all.len();
        table.by_type.insert(id, at);
        table.all.push((scope.clone(), Arc::new(cache.clone())));
        cache
    }

    /// The cache of this kind, if declared and kept: the one of this scope, or of the whole namespace scope.
    pub(crate) fn find<K: Kind>(&self, scope: &Scope) -> Result<Cache<K>, Error> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wide = Scope { namespace: scope.namespace.clone(), labels: None };
        let mut declared = [scope.clone(), wide].into_iter().filter_map(|scope| {
            let at = *table.by_type.get(&(TypeId::of::<K>(), scope))?;
            Some(typed::<K>(&table.all[at].1)).filter(Cache::is_kept)
        });
        declared.next().ok_or_else(|| Error::NotDeclared { resource: resource_of::<K>() })
    }

    /// Keeps an index of a declared cache.
    pub(crate) fn keep_index<K: Kind, V: Send + Sync + 'static>(&self, scope: &Scope, index: Index<K, V>) {
        let id = (TypeId::of::<K>(), TypeId::of::<V>(), scope.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).indexes.insert(id, Arc::new(index));
    }

    /// The index of this kind by this type of value.
    pub(crate) fn find_index<K: Kind, V: Send + Sync + 'static>(&self, scope: &Scope) -> Option<Index<K, V>> {
        let id = (TypeId::of::<K>(), TypeId::of::<V>(), scope.clone());
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.indexes.get(&id)?.downcast_ref::<Index<K, V>>().cloned()
    }

    pub(crate) fn all(&self) -> Vec<(Scope, Arc<dyn AnyCache>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }
}

fn typed<K: Kind>(cache: &Arc<dyn AnyCache>) -> Cache<K> {
    cache.as_any().downcast_ref::<Cache<K>>().expect("the table is keyed by the type of the cache").clone()
}
