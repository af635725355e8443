//! An index over a cache maps a value that the user computes (a node name, a referenced Secret, the owner's uid) to the
//! objects that have it.
//!
//! **Invariant:** an index agrees with the cache it belongs to, including the overlay; it is updated under the same
//! lock.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use homeostat_core::Key;

use super::{Cache, ObjectCache};
use crate::kind::Kind;
use crate::kind::object::{Object, downcast_object, downcast_objects};
use crate::panics::catch_panic;

/// How an index reacts when the visible state of an object changes.
pub(super) trait IndexUpdate: Send + Sync {
    /// Fails with the message of a panic in the user's code; the object then has no values.
    fn follow(&self, key: &Key, old: Option<&Object>, new: Option<&Object>) -> Result<(), String>;
}

type IndexTable<V> = Arc<RwLock<HashMap<V, IndexedKeys>>>;

/// The objects with a value. Most values belong to one object, and a set with one member takes ten times the memory of
/// its key.
enum IndexedKeys {
    One(Key),
    Many(BTreeSet<Key>),
}

impl IndexedKeys {
    fn keys(&self) -> Vec<Key> {
        match self {
            Self::One(key) => vec![key.clone()],
            Self::Many(keys) => keys.iter().cloned().collect(),
        }
    }

    fn insert(&mut self, key: &Key) {
        match self {
            Self::One(other) if other == key => {}
            Self::One(other) => *self = Self::Many([other.clone(), key.clone()].into()),
            Self::Many(keys) => _ = keys.insert(key.clone()),
        }
    }

    /// Removes a key, and returns whether no key is left.
    fn remove(&mut self, key: &Key) -> bool {
        match self {
            Self::One(other) => other == key,
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }
}

/// A typed index: returns the objects with a value.
pub struct Index<K: Kind, V> {
    inner: ObjectIndex<V>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), kind: PhantomData }
    }
}

impl<K: Kind, V: Hash + Eq + Send + Sync + 'static> Index<K, V> {
    pub(super) fn new<I>(cache: &Cache<K>, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = V>,
    {
        let values = move |object: &Object| values(object.as_type()).into_iter().collect();
        Self { inner: ObjectIndex::new(cache.erased(), Box::new(values)), kind: PhantomData }
    }

    /// Returns the keys of the objects with this value, in order.
    pub fn keys(&self, value: &V) -> Vec<Key> {
        self.inner.keys(value)
    }

    /// Returns the objects with this value and their keys, in order.
    pub(crate) fn entries(&self, value: &V) -> Vec<(Key, Arc<K>)> {
        let keys = self.keys(value).into_iter();
        keys.filter_map(|key| self.inner.cache.get(&key).map(|object| (key, downcast_object(object))))
            .collect()
    }

    /// Returns the objects with this value, in order of their keys.
    pub fn get(&self, value: &V) -> Vec<Arc<K>> {
        downcast_objects(self.inner.get(value))
    }
}

/// Finds the values of an object.
pub(crate) type Values<V> = Box<dyn Fn(&Object) -> Vec<V> + Send + Sync>;

/// An index of objects of any kind.
pub(crate) struct ObjectIndex<V> {
    cache: ObjectCache,
    table: IndexTable<V>,
}

impl<V> Clone for ObjectIndex<V> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), table: self.table.clone() }
    }
}

impl<V: Hash + Eq + Send + Sync + 'static> ObjectIndex<V> {
    pub(crate) fn new(cache: &ObjectCache, values: Values<V>) -> Self {
        let table = IndexTable::default();
        cache.add_follower(Box::new(IndexUpdater { table: table.clone(), values }));
        Self { cache: cache.clone(), table }
    }

    /// Returns the keys of the objects with this value, in order.
    pub(crate) fn keys(&self, value: &V) -> Vec<Key> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(value).map(IndexedKeys::keys).unwrap_or_default()
    }

    fn get(&self, value: &V) -> Vec<Arc<Object>> {
        self.keys(value).iter().filter_map(|key| self.cache.get(key)).collect()
    }
}

struct IndexUpdater<V> {
    table: IndexTable<V>,
    values: Values<V>,
}

impl<V: Hash + Eq + Send + Sync> IndexUpdate for IndexUpdater<V> {
    fn follow(&self, key: &Key, old: Option<&Object>, new: Option<&Object>) -> Result<(), String> {
        let mut outcome = Ok(());
        let mut values_of = |object: Option<&Object>| {
            catch_panic(|| object.map(&self.values).unwrap_or_default()).unwrap_or_else(|message| {
                outcome = Err(message);
                Vec::new()
            })
        };
        let (old, new) = (values_of(old), values_of(new));
        // Comparing and hashing values also runs the user's code.
        catch_panic(|| self.exchange(key, old, new)).and(outcome)
    }
}

impl<V: Hash + Eq> IndexUpdater<V> {
    fn exchange(&self, key: &Key, old: Vec<V>, new: Vec<V>) {
        if old == new {
            return;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for value in old {
            if table.get_mut(&value).is_some_and(|holders| holders.remove(key)) {
                table.remove(&value);
            }
        }
        for value in new {
            let holders = table.entry(value).or_insert_with(|| IndexedKeys::One(key.clone()));
            holders.insert(key);
        }
    }
}
