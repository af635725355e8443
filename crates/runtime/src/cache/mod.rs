//! The cache of one kind is shared by every controller that reads it: its objects are decoded once and indexed, and our
//! own writes overlay them until the watch shows them. `ObjectCache` does not know the type of its objects and is
//! compiled once; [`Cache`] restores their type.
//!
//! Only the watch task writes observed states; reconcilers overlay them with their own writes. Each change is passed to
//! the subscribers with its old and new state, after the lock is released and in the order of the watch. A deletion
//! during a gap in the watch is found because the next list no longer contains the object.
//!
//! **Invariant:** a cache contains only objects that its watch would show: writes outside its scope, or older than what
//! the watch has shown, are not added to it. **Invariant:** subscribers and indexes partly run the user's code; a panic
//! on an object is reported and does not affect other objects.
//!
//! If only raw events of a kind are needed, nothing is kept (`event_only`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::fast::RandomState;
use homeostat_core::journal::{Change, Source, WatchState};
use homeostat_core::{Key, Revision};
use tokio::sync::watch;

pub(crate) mod caches;
mod dependents;
mod entry;
mod event_only;
mod index;
mod notify_subscribers;
mod object_delta;
mod scope_filter;
#[cfg(test)]
mod tests;
mod typed_cache;
mod unanswered_write;
mod watch_loop;

use dependents::DependentsByOwner;
use entry::Entry;
pub(crate) use event_only::BoundedSubscriber;
use event_only::EventOnly;
pub use index::Index;
use index::IndexUpdate;
pub(crate) use index::ObjectIndex;
pub use object_delta::Delta;
use object_delta::sort_of;
pub(crate) use object_delta::{ObjectDelta, ShownBy, WritingRun};
use scope_filter::ScopeFilter;
pub use typed_cache::Cache;
pub(crate) use unanswered_write::UnansweredWrite;

use crate::journal::Journal;
use crate::kind::KindInfo;
use crate::kind::object::Object;
use crate::watch::Scope;

type Subscriber = Arc<dyn Fn(&ObjectDelta) + Send + Sync>;

/// Called for an object that cannot be decoded, and for its deletion, with the source that showed it.
type QuarantineSubscriber = Arc<dyn Fn(&Key, ShownBy) + Send + Sync>;

/// The cache of one kind, without its type. Cheap to clone; all clones see the same objects.
#[derive(Clone)]
pub(crate) struct ObjectCache(Arc<CacheShared>);

struct CacheShared {
    info: &'static KindInfo,
    state: RwLock<CacheState>,
    subscribers: RwLock<Vec<Subscriber>>,
    quarantine_subscribers: RwLock<Vec<QuarantineSubscriber>>,
    dependents: DependentsByOwner,
    /// Our writes in progress, by object.
    writing: Mutex<HashMap<Key, Vec<WritingRun>>>,
    coverage: ScopeFilter,
    /// Where panics in the user's code are recorded.
    reporter: OnceLock<(Journal, Source)>,
    freshness: watch::Sender<Freshness>,
    event_only: EventOnly,
}

struct CacheState {
    objects: HashMap<Key, Entry, RandomState>,
    followers: Vec<Box<dyn IndexUpdate>>,
    quarantined: BTreeMap<Key, QuarantinedObject>,
    /// The number of the current or last complete list.
    epoch: u32,
    is_listing: bool,
    /// Everything up to this revision has been seen.
    revision: Revision,
}

/// The source that shows a state of an object.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    /// The first list.
    First,
    /// A later list: a new object in it was created during a gap in the watch, which counts as a change.
    Again,
    /// A watch.
    Live,
}

/// An object that cannot be decoded, and the list that last mentioned it.
struct QuarantinedObject {
    error: String,
    epoch: u32,
}

/// How far a cache can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// A complete list has been read at least once.
    pub is_synced: bool,
    /// The current state of the watch.
    pub state: WatchState,
}

impl ObjectCache {
    /// Creates an empty cache for this scope; nothing feeds it yet.
    pub(crate) fn new(info: &'static KindInfo, scope: &Scope) -> Self {
        let state = CacheState {
            objects: HashMap::default(),
            followers: Vec::new(),
            quarantined: BTreeMap::new(),
            epoch: 0,
            is_listing: false,
            revision: Revision::ZERO,
        };
        let freshness = watch::Sender::new(Freshness { is_synced: false, state: WatchState::Listing });
        Self(Arc::new(CacheShared {
            info,
            state: RwLock::new(state),
            subscribers: RwLock::default(),
            quarantine_subscribers: RwLock::default(),
            dependents: DependentsByOwner::default(),
            writing: Mutex::default(),
            coverage: ScopeFilter::of_scope(scope),
            reporter: OnceLock::new(),
            freshness,
            event_only: EventOnly::default(),
        }))
    }

    /// Returns the kind of its objects.
    pub(crate) fn info(&self) -> &'static KindInfo {
        self.0.info
    }

    /// Returns the object with this key, including our own writes.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.read().objects.get(key).and_then(|entry| entry.visible().cloned())
    }

    /// Returns every object, in order of their keys.
    pub(crate) fn list(&self) -> Vec<Arc<Object>> {
        let state = self.read();
        let mut found: Vec<_> =
            state.objects.iter().filter_map(|(key, entry)| Some((key, entry.visible()?))).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// Returns every object and its key, in no particular order: sorting a hundred thousand objects costs more than
    /// most uses of them.
    pub(crate) fn entries(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.read();
        let visible = state.objects.iter().filter_map(|(key, entry)| Some((key, entry.visible()?)));
        visible.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Returns the objects that name this uid among their owners, in order of their keys.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        self.0.dependents.dependents_of(uid).iter().filter_map(|key| self.get(key)).collect()
    }

    /// Returns how many objects it contains.
    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Returns whether the cache contains no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the newest revision this cache is known to include.
    pub(crate) fn revision(&self) -> Revision {
        self.read().revision
    }

    /// Returns the objects that cannot be decoded, and why.
    pub(crate) fn quarantined(&self) -> Vec<(Key, String)> {
        self.read().quarantined.iter().map(|(key, object)| (key.clone(), object.error.clone())).collect()
    }

    /// Returns how far it can be trusted now.
    pub(crate) fn freshness(&self) -> Freshness {
        self.0.freshness.borrow().clone()
    }

    /// Calls `subscriber` with every change from now on, in order, from the watch's task.
    pub(crate) fn subscribe(&self, subscriber: impl Fn(&ObjectDelta) + Send + Sync + 'static) {
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(subscriber));
    }

    /// Calls `subscriber` with the key of every object that cannot be decoded, and when such an object is deleted.
    pub(crate) fn subscribe_quarantined(&self, subscriber: impl Fn(&Key, ShownBy) + Send + Sync + 'static) {
        let mut all = self.0.quarantine_subscribers.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(subscriber));
    }

    /// Returns why this object cannot be decoded; `None` if it can be, or does not exist.
    pub(crate) fn quarantined_error(&self, key: &Key) -> Option<String> {
        self.read().quarantined.get(key).map(|object| object.error.clone())
    }

    /// Returns a receiver that sees every freshness change.
    pub(crate) fn watch_freshness(&self) -> watch::Receiver<Freshness> {
        self.0.freshness.subscribe()
    }

    pub(crate) fn set_state(&self, state: WatchState) {
        self.0.freshness.send_modify(|freshness| freshness.state = state);
    }

    /// Begins a list: objects that it does not contain are gone.
    pub(crate) fn begin_list(&self) {
        let mut state = self.write();
        state.epoch += 1;
        state.is_listing = true;
    }

    /// Ends a list that is complete as of `revision`. Returns the objects that were deleted (or reverted) during a gap
    /// in the watch. A list that is older than the known state comes from a server that went back in time
    /// (`watch_machine` explains why no other is possible), and is applied nevertheless.
    pub(crate) fn end_list(&self, revision: Revision) -> Vec<ObjectDelta> {
        let (missed, unread) = {
            let mut state = self.write();
            let epoch = state.epoch;
            state.is_listing = false;
            let is_rewound = revision != Revision::ZERO && revision < state.revision;
            state.revision = revision.max(if is_rewound { Revision::ZERO } else { state.revision });
            let mut missed = if is_rewound { self.disown(&mut state, revision) } else { Vec::new() };
            let unread = state.quarantined.extract_if(.., |_, object| object.epoch != epoch);
            let unread: Vec<Key> = unread.map(|(key, _)| key).collect();
            let mut keys: Vec<Key> = state
                .objects
                .iter()
                .filter(|(_, entry)| entry.epoch != epoch)
                .map(|(key, _)| key.clone())
                .collect();
            keys.sort_unstable();
            missed.extend(keys.into_iter().filter_map(|key| self.sweep(&mut state, key, revision)));
            (missed, unread)
        };
        for delta in &missed {
            self.notify_subscribers(delta);
        }
        for key in &unread {
            self.notify_quarantined(key, ShownBy::Watch);
        }
        self.0.freshness.send_modify(|freshness| {
            freshness.is_synced = true;
            freshness.state = WatchState::Fresh;
        });
        missed
    }

    /// Applies a bookmark: the cache includes everything up to `revision`.
    pub(crate) fn reached(&self, revision: Revision) {
        let mut state = self.write();
        state.revision = state.revision.max(revision);
    }

    /// Stores a state of the object with this key that the watch or a list shows.
    pub(crate) fn observe(&self, key: Key, object: Arc<Object>, by: ShownBy) -> Option<ObjectDelta> {
        let revision = object.revision();
        let delta = {
            let mut state = self.write();
            state.quarantined.remove(&key);
            let shown = match by {
                ShownBy::Watch => Shown::Live,
                ShownBy::List if self.0.freshness.borrow().is_synced => Shown::Again,
                ShownBy::List => Shown::First,
            };
            self.change(&mut state, key, Some(object), revision, shown)?
        };
        self.notify_subscribers(&delta);
        Some(delta)
    }

    /// Removes an object that the watch shows as gone.
    pub(crate) fn observe_deleted(&self, key: Key, revision: Revision) -> Option<ObjectDelta> {
        let delta = {
            let mut state = self.write();
            let was_quarantined = state.quarantined.remove(&key).is_some();
            if !state.objects.contains_key(&key) {
                drop(state);
                if was_quarantined {
                    self.notify_quarantined(&key, ShownBy::Watch);
                }
                return None;
            }
            self.change(&mut state, key, None, revision, Shown::Live)?
        };
        self.notify_subscribers(&delta);
        Some(delta)
    }

    /// Hides an object that cannot be decoded until it changes. Subscribers are not notified of a deletion, because the
    /// object still exists.
    pub(crate) fn quarantine(&self, key: &Key, error: String, by: ShownBy) {
        {
            let mut state = self.write();
            if let Some(entry) = state.objects.remove(key) {
                self.follow(&state, key, entry.visible().map(Arc::as_ref), None);
            }
            let epoch = state.epoch;
            state.quarantined.insert(key.clone(), QuarantinedObject { error, epoch });
        }
        self.notify_quarantined(key, by);
    }

    /// Records that this run is writing to this object until the guard is dropped.
    pub(crate) fn writing(&self, key: &Key, writer: WritingRun) -> UnansweredWrite {
        self.writes_under_way().entry(key.clone()).or_default().push(writer.clone());
        UnansweredWrite { cache: self.clone(), key: key.clone(), writer }
    }

    fn writes_under_way(&self) -> MutexGuard<'_, HashMap<Key, Vec<WritingRun>>> {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a state that this run wrote: readers see it from now on.
    pub(crate) fn wrote(&self, object: Arc<Object>, writer: WritingRun) {
        let (key, revision) = (self.0.info.key_of(object.meta()), object.revision());
        let is_covered = self.0.coverage.includes(self.0.info, object.meta());
        let mut state = self.write();
        // What the watch has shown since is newer; where it shows nothing, the object is gone already.
        let is_overtaken = !state.is_listing && revision <= state.revision;
        let is_unknown = !is_covered && !state.objects.contains_key(&key);
        if is_overtaken || is_unknown || !self.is_kept() {
            return;
        }
        let epoch = state.epoch;
        let entry = state.objects.entry(key.clone()).or_insert_with(|| Entry::empty(epoch));
        let before = entry.visible().cloned();
        entry.wrote(is_covered.then_some(object), revision, writer);
        let after = entry.visible().cloned();
        self.follow(&state, &key, before.as_deref(), after.as_deref());
    }

    /// Hides this object, which we deleted. Another object with the same name stays visible.
    pub(crate) fn deleted(&self, key: &Key, uid: Option<&str>) {
        let mut state = self.write();
        let Some(entry) = state.objects.get_mut(key) else { return };
        let visible = entry.visible().filter(|visible| visible.meta().uid.as_deref() == uid);
        let Some(before) = visible.cloned() else { return };
        entry.deleted(before.meta().uid.clone());
        self.follow(&state, key, Some(&*before), None);
    }

    fn add_follower(&self, follower: Box<dyn IndexUpdate>) {
        let mut state = self.write();
        for (key, entry) in &state.objects {
            self.update(&*follower, key, None, entry.visible().map(Arc::as_ref));
        }
        state.followers.push(follower);
    }

    fn change(
        &self,
        state: &mut CacheState,
        key: Key,
        new: Option<Arc<Object>>,
        revision: Revision,
        shown: Shown,
    ) -> Option<ObjectDelta> {
        if shown == Shown::Live {
            state.revision = state.revision.max(revision);
        }
        let epoch = state.epoch;
        let entry = state.objects.entry(key.clone()).or_insert_with(|| Entry::empty(epoch));
        entry.epoch = epoch;
        if shown != Shown::Live && revision < entry.revision {
            // The known state is newer than a list: it belongs to a history that the server has lost.
            entry.disown_after(revision);
            entry.revision = Revision::ZERO;
        }
        if new.is_some() && entry.seen.is_some() && revision <= entry.revision && revision != Revision::ZERO {
            return None;
        }
        let before = entry.visible().cloned();
        let old = entry.seen.clone();
        // A list may omit states that others wrote before or after us.
        let writer = entry.observe(new.clone(), revision).filter(|_| shown == Shown::Live);
        let after = entry.visible().cloned();
        if entry.is_empty() {
            state.objects.remove(&key);
        }
        self.follow(state, &key, before.as_deref(), after.as_deref());
        let by = if shown == Shown::First { ShownBy::List } else { ShownBy::Watch };
        let change = sort_of(old.as_ref(), new.as_ref(), by);
        let writing = self.writes_under_way().get(&key).cloned().unwrap_or_default();
        Some(ObjectDelta { key, old, new, change, revision, writer, writing })
    }

    /// Returns the states that we wrote after `revision`, in a history that the server has lost.
    fn disown(&self, state: &mut CacheState, revision: Revision) -> Vec<ObjectDelta> {
        let mut undone = Vec::new();
        let mut objects = std::mem::take(&mut state.objects);
        objects.retain(|key, entry| {
            let old = entry.visible().cloned();
            if entry.disown_after(revision) {
                let new = entry.visible().cloned();
                self.follow(state, key, old.as_deref(), new.as_deref());
                let change = sort_of(old.as_ref(), new.as_ref(), ShownBy::Watch);
                let (key, writer, writing) = (key.clone(), None, Vec::new());
                undone.push(ObjectDelta { key, old, new, change, revision, writer, writing });
            }
            !entry.is_empty()
        });
        state.objects = objects;
        undone.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        undone
    }

    /// Removes an object that a complete list did not contain.
    fn sweep(&self, state: &mut CacheState, key: Key, revision: Revision) -> Option<ObjectDelta> {
        let entry = state.objects.get_mut(&key)?;
        let before = entry.visible().cloned();
        let old = entry.seen.clone();
        entry.missing_at(revision);
        let after = entry.visible().cloned();
        if entry.is_empty() {
            state.objects.remove(&key);
        }
        self.follow(state, &key, before.as_deref(), after.as_deref());
        // Only this cache knows of a write that no watch has shown yet, but its deletion must still be reported.
        let old = Some(old.or_else(|| before.filter(|_| after.is_none()))?);
        let (change, writer, writing) = (Change::Missed, None, Vec::new());
        Some(ObjectDelta { key, old, new: None, change, revision, writer, writing })
    }

    fn follow(&self, state: &CacheState, key: &Key, old: Option<&Object>, new: Option<&Object>) {
        self.0.dependents.follow(key, old, new);
        state.followers.iter().for_each(|follower| self.update(&**follower, key, old, new));
    }

    fn update(&self, follower: &dyn IndexUpdate, key: &Key, old: Option<&Object>, new: Option<&Object>) {
        if let Err(message) = follower.follow(key, old, new) {
            self.report_panic("an index", key, message);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, CacheState> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
