//! A cache that keeps nothing: what the watch shows goes to the subscribers and is forgotten.
//!
//! For kinds of which an operator wants raw events only. All that is kept is how far the watch is; so nothing can be read
//! from it, what is deleted while nobody watches is never told, and after such a time everything there is counts as
//! listed again. A single controller that needs the objects makes an ordinary cache of it, before it is fed.
//!
//! **Invariant:** the watch waits while a reader has no room. What waits in memory is bounded by the readers' room, however
//! many objects there are and however slow the readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::Change;
use tokio::sync::Notify;

use super::{ObjectCache, ObjectDelta};
use crate::kind::KindInfo;
use crate::object::Object;
use crate::watch::Scope;

/// Somebody who takes what is passed on, and may fall behind.
pub(crate) trait Reader: Send + Sync {
    /// Does it want nothing more for now?
    fn is_full(&self) -> bool;

    /// Waits until it wants more.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// The part of a cache that matters while it keeps nothing.
#[derive(Default)]
pub(super) struct EventOnly {
    keeps_nothing: AtomicBool,
    readers: RwLock<Vec<Arc<dyn Reader>>>,
    relist: Notify,
}

impl ObjectCache {
    /// A cache of what is watched in this scope that keeps nothing, unless [`keep`](Self::keep) says otherwise.
    pub(crate) fn event_only(info: &'static KindInfo, scope: &Scope) -> Self {
        let cache = Self::new(info, scope);
        cache.0.event_only.keeps_nothing.store(true, Ordering::Relaxed);
        cache
    }

    /// Somebody needs the objects. To be said before it is fed.
    pub(crate) fn keep(&self) {
        self.0.event_only.keeps_nothing.store(false, Ordering::Relaxed);
    }

    /// Does it hold the objects that it is shown?
    pub(crate) fn is_kept(&self) -> bool {
        !self.0.event_only.keeps_nothing.load(Ordering::Relaxed)
    }

    /// Tells the subscribers what the watch shows.
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

    /// From now on the watch waits for this reader, as long as nothing is kept.
    pub(crate) fn add_reader(&self, reader: Arc<dyn Reader>) {
        self.0.event_only.readers.write().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    /// Waits until every reader has room.
    pub(crate) async fn room(&self) {
        while let Some(reader) = self.full_reader() {
            reader.room().await;
        }
    }

    fn full_reader(&self) -> Option<Arc<dyn Reader>> {
        let readers = self.0.event_only.readers.read().unwrap_or_else(PoisonError::into_inner);
        readers.iter().find(|reader| reader.is_full()).cloned()
    }

    /// Asks for everything there is to be shown again.
    pub(crate) fn want_relist(&self) {
        self.0.event_only.relist.notify_one();
    }

    /// Waits until somebody asks for everything again.
    pub(crate) async fn relist_wanted(&self) {
        self.0.event_only.relist.notified().await;
    }
}
