//! A cache that keeps nothing passes the changes that the watch shows to its subscribers and forgets them.
//!
//! It is for kinds from which an operator needs only raw events. Only the position of the watch is kept, so nothing can
//! be read from it, deletions during a gap in the watch are never reported, and after a gap every existing object
//! counts as listed again. A single controller that needs the objects turns it into an ordinary cache, before the cache
//! is fed.
//!
//! **Invariant:** the watch waits while a reader has no room. The number of changes waiting in memory is bounded by the
//! readers' room, however many objects there are and however slow the readers are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::Change;
use tokio::sync::Notify;

use super::{ObjectCache, ObjectDelta};
use crate::kind::KindInfo;
use crate::kind::object::Object;
use crate::watch::Scope;

/// A consumer of the changes, which may fall behind.
pub(crate) trait BoundedSubscriber: Send + Sync {
    /// Returns whether it currently has no room for more.
    fn is_full(&self) -> bool;

    /// Waits until there is room for more.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// The part of a cache that is used while it keeps nothing.
#[derive(Default)]
pub(super) struct EventOnly {
    keeps_nothing: AtomicBool,
    readers: RwLock<Vec<Arc<dyn BoundedSubscriber>>>,
    relist: Notify,
}

impl ObjectCache {
    /// Returns a cache for this scope that keeps nothing, unless [`keep`](Self::keep) is called.
    pub(crate) fn event_only(info: &'static KindInfo, scope: &Scope) -> Self {
        let cache = Self::new(info, scope);
        cache.0.event_only.keeps_nothing.store(true, Ordering::Relaxed);
        cache
    }

    /// Makes the cache keep its objects. Call this before the cache is fed.
    pub(crate) fn keep(&self) {
        self.0.event_only.keeps_nothing.store(false, Ordering::Relaxed);
    }

    /// Returns whether the cache keeps the objects that are passed to it.
    pub(crate) fn is_kept(&self) -> bool {
        !self.0.event_only.keeps_nothing.load(Ordering::Relaxed)
    }

    /// Passes a change that the watch shows to the subscribers.
    pub(crate) fn pass_on(&self, key: Key, object: Arc<Object>, change: Change) -> ObjectDelta {
        let (revision, writer, writing) = (object.revision(), None, Vec::new());
        let (old, new) = match change {
            Change::Deleted | Change::Missed => (Some(object), None),
            Change::Listed | Change::Added | Change::Modified => (None, Some(object)),
        };
        let delta = ObjectDelta { key, old, new, change, revision, writer, writing };
        self.notify_subscribers(&delta);
        delta
    }

    /// Makes the watch wait for this reader, as long as nothing is kept.
    pub(crate) fn add_reader(&self, reader: Arc<dyn BoundedSubscriber>) {
        self.0.event_only.readers.write().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    /// Waits until every reader has room.
    pub(crate) async fn room(&self) {
        while let Some(reader) = self.full_reader() {
            reader.room().await;
        }
    }

    fn full_reader(&self) -> Option<Arc<dyn BoundedSubscriber>> {
        let readers = self.0.event_only.readers.read().unwrap_or_else(PoisonError::into_inner);
        readers.iter().find(|reader| reader.is_full()).cloned()
    }

    /// Requests that all existing objects be shown again.
    pub(crate) fn want_relist(&self) {
        self.0.event_only.relist.notify_one();
    }

    /// Waits until all existing objects are requested again.
    pub(crate) async fn relist_wanted(&self) {
        self.0.event_only.relist.notified().await;
    }
}
