//! The cache of one kind, shared by every controller that reads it: decoded once, indexed, with our own writes laid
//! over it until the watch shows them.
//!
//! The watch task is the only writer of what was seen; reconcilers lay their writes on top. Each change is told to the
//! subscribers as old and new state, after the lock is released and in the order of the watch. A list that no longer
//! mentions an object is how a deletion nobody watched is found.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::fast::RandomState;
use homeostat_core::journal::{Change, WatchState};
use homeostat_core::{Key, Revision};
use tokio::sync::watch;

mod entry;
mod index;
#[cfg(test)]
mod tests;

use entry::Entry;
use index::Follow;
pub use index::Index;

use crate::kind::{Kind, key_of, resource_of, revision_of};

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Delta<K> {
    /// Which object.
    pub key: Key,
    /// What the watch showed before.
    pub old: Option<Arc<K>>,
    /// What it shows now; none when the object is gone.
    pub new: Option<Arc<K>>,
    /// What sort of change.
    pub change: Change,
    /// The server's number of the change.
    pub revision: Revision,
    /// This is our own write coming back.
    pub is_echo: bool,
    /// A write of ours to this object is under way: this may be it, faster than its answer.
    pub is_while_writing: bool,
}

type Subscriber<K> = Arc<dyn Fn(&Delta<K>) + Send + Sync>;

/// Hears of an object that does not decode, and of its deletion; the flag says that a list showed it.
type PoisonSubscriber = Arc<dyn Fn(&Key, bool) + Send + Sync>;

/// A handle on the cache of one kind. Cheap to clone; all clones see the same objects.
pub struct Cache<K: Kind>(Arc<Shared<K>>);

impl<K: Kind> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<K: Kind> {
    state: RwLock<State<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    poison_subscribers: RwLock<Vec<PoisonSubscriber>>,
    owners: Owners,
    /// Writes of ours under way, by object.
    writing: Mutex<HashMap<Key, u32>>,
    freshness: watch::Sender<Freshness>,
}

struct State<K: Kind> {
    objects: HashMap<Key, Entry<K>, RandomState>,
    followers: Vec<Box<dyn Follow<K>>>,
    poison: BTreeMap<Key, Poison>,
    /// The number of the list under way or last completed.
    epoch: u32,
    revision: Revision,
}

/// Who shows a state of an object.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    /// The first list.
    First,
    /// A later one: a new object in it was created while nobody watched, and that is news.
    Again,
    /// A watch.
    Live,
}

/// An object that does not decode, and the list that last mentioned it.
struct Poison {
    error: String,
    epoch: u32,
}

/// How far a cache can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// A complete list has been read at least once.
    pub is_synced: bool,
    /// What the watch is doing.
    pub state: WatchState,
}

impl<K: Kind> Cache<K> {
    /// An empty cache that nothing feeds yet.
    pub(crate) fn new() -> Self {
        let state = State {
            objects: HashMap::default(),
            followers: Vec::new(),
            poison: BTreeMap::new(),
            epoch: 0,
            revision: Revision::ZERO,
        };
        let freshness = watch::Sender::new(Freshness { is_synced: false, state: WatchState::Listing });
        Self(Arc::new(Shared {
            state: RwLock::new(state),
            subscribers: RwLock::default(),
            poison_subscribers: RwLock::default(),
            owners: RwLock::default(),
            writing: Mutex::default(),
            freshness,
        }))
    }

    /// The object with this key, our own writes included.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().objects.get(key).and_then(|entry| entry.visible().cloned())
    }

    /// Every object, in order of their keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        let state = self.read();
        let mut found: Vec<_> =
            state.objects.iter().filter_map(|(key, entry)| Some((key, entry.visible()?))).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// Every object and its key, in no order: sorting a hundred thousand costs more than most uses of them.
    pub(crate) fn entries(&self) -> Vec<(Key, Arc<K>)> {
        let state = self.read();
        let visible = state.objects.iter().filter_map(|(key, entry)| Some((key, entry.visible()?)));
        visible.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// The objects that name this uid among their owners, in order of their keys.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        let keys: Vec<Key> = {
            let owners = self.0.owners.read().unwrap_or_else(PoisonError::into_inner);
            owners.get(uid).into_iter().flatten().cloned().collect()
        };
        keys.iter().filter_map(|key| self.get(key)).collect()
    }

    /// Builds an index of the objects by the values `values` finds in each.
    pub fn index<V, I>(&self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Index::new(self.clone(), values)
    }

    /// How many objects it holds.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest revision this cache is known to include.
    pub fn revision(&self) -> Revision {
        self.read().revision
    }

    /// The objects that do not decode, and why.
    pub fn quarantined(&self) -> Vec<(Key, String)> {
        self.read().poison.iter().map(|(key, poison)| (key.clone(), poison.error.clone())).collect()
    }

    /// How far it can be trusted now.
    pub fn freshness(&self) -> Freshness {
        self.0.freshness.borrow().clone()
    }

    /// `group/resource`.
    pub fn resource(&self) -> String {
        resource_of::<K>()
    }

    /// Calls `subscriber` with every change from now on, in order, from the watch's task.
    pub fn subscribe(&self, subscriber: impl Fn(&Delta<K>) + Send + Sync + 'static) {
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(subscriber));
    }

    /// Calls `subscriber` with the key of every object that turns out not to decode, or is deleted as such.
    pub(crate) fn subscribe_poison(&self, subscriber: impl Fn(&Key, bool) + Send + Sync + 'static) {
        let mut all = self.0.poison_subscribers.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(subscriber));
    }

    /// Why this object does not decode; none if it does or is not there.
    pub(crate) fn poison(&self, key: &Key) -> Option<String> {
        self.read().poison.get(key).map(|poison| poison.error.clone())
    }

    /// Tells when freshness changes.
    pub(crate) fn watch_freshness(&self) -> watch::Receiver<Freshness> {
        self.0.freshness.subscribe()
    }

    pub(crate) fn set_state(&self, state: WatchState) {
        self.0.freshness.send_modify(|freshness| freshness.state = state);
    }

    /// A list begins: what it will not mention is gone.
    pub(crate) fn begin_list(&self) {
        self.write().epoch += 1;
    }

    /// The list is complete as of `revision`. Returns what was deleted (or undone) while nobody watched. A list that is older
    /// than what is known comes from a server that went back in time (the watch's `machine` says why no other is
    /// possible), and is the truth all the same.
    pub(crate) fn end_list(&self, revision: Revision) -> Vec<Delta<K>> {
        let missed = {
            let mut state = self.write();
            let epoch = state.epoch;
            let is_rewound = revision != Revision::ZERO && revision < state.revision;
            state.revision = revision.max(if is_rewound { Revision::ZERO } else { state.revision });
            let mut missed = if is_rewound { self.disown(&mut state, revision) } else { Vec::new() };
            state.poison.retain(|_, poison| poison.epoch == epoch);
            let mut keys: Vec<Key> = state
                .objects
                .iter()
                .filter(|(_, entry)| entry.epoch != epoch)
                .map(|(key, _)| key.clone())
                .collect();
            keys.sort_unstable();
            missed.extend(keys.into_iter().filter_map(|key| self.sweep(&mut state, key, revision)));
            missed
        };
        for delta in &missed {
            self.tell(delta);
        }
        self.0.freshness.send_modify(|freshness| {
            freshness.is_synced = true;
            freshness.state = WatchState::Fresh;
        });
        missed
    }

    /// A bookmark: the cache includes everything up to `revision`.
    pub(crate) fn reached(&self, revision: Revision) {
        let mut state = self.write();
        state.revision = state.revision.max(revision);
    }

    /// The watch (or a list) shows a state of the object with this key.
    pub(crate) fn observe(&self, key: Key, object: Arc<K>, is_list: bool) -> Option<Delta<K>> {
        let revision = revision_of(&*object);
        let delta = {
            let mut state = self.write();
            state.poison.remove(&key);
            let shown = match is_list {
                false => Shown::Live,
                true if self.0.freshness.borrow().is_synced => Shown::Again,
                true => Shown::First,
            };
            self.change(&mut state, key, Some(object), revision, shown)?
        };
        self.tell(&delta);
        Some(delta)
    }

    /// The watch shows that an object is gone.
    pub(crate) fn observe_deleted(&self, key: Key, revision: Revision) -> Option<Delta<K>> {
        let delta = {
            let mut state = self.write();
            let was_poison = state.poison.remove(&key).is_some();
            if !state.objects.contains_key(&key) {
                drop(state);
                if was_poison {
                    self.tell_poison(&key, false);
                }
                return None;
            }
            self.change(&mut state, key, None, revision, Shown::Live)?
        };
        self.tell(&delta);
        Some(delta)
    }

    /// The object does not decode: kept out of sight until it changes. Nobody is told that it is gone, for it is not.
    pub(crate) fn quarantine(&self, key: &Key, error: String, is_list: bool) {
        {
            let mut state = self.write();
            if let Some(entry) = state.objects.remove(key) {
                self.follow(&state, key, entry.visible().map(Arc::as_ref), None);
            }
            let epoch = state.epoch;
            state.poison.insert(key.clone(), Poison { error, epoch });
        }
        self.tell_poison(key, is_list);
    }

    /// A write of ours to this object is under way until the guard is dropped.
    pub(crate) fn writing(&self, key: &Key) -> Writing<K> {
        let mut writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *writing.entry(key.clone()).or_default() += 1;
        Writing { cache: self.clone(), key: key.clone() }
    }

    fn is_writing(&self, key: &Key) -> bool {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    /// We wrote this state: readers see it from now on.
    pub(crate) fn wrote(&self, object: K) -> Arc<K> {
        let (key, revision) = (key_of(&object), revision_of(&object));
        let object = Arc::new(object);
        let mut state = self.write();
        let epoch = state.epoch;
        let entry = state.objects.entry(key.clone()).or_insert_with(|| Entry::empty(epoch));
        let before = entry.visible().cloned();
        entry.wrote(object.clone(), revision);
        let after = entry.visible().cloned();
        self.follow(&state, &key, before.as_deref(), after.as_deref());
        object
    }

    /// We deleted this object: readers no longer see it.
    pub(crate) fn deleted(&self, key: &Key) {
        let mut state = self.write();
        let Some(entry) = state.objects.get_mut(key) else { return };
        let Some(before) = entry.visible().cloned() else { return };
        entry.deleted(before.meta().uid.clone());
        self.follow(&state, key, Some(&before), None);
    }

    fn add_follower(&self, follower: Box<dyn Follow<K>>) {
        let mut state = self.write();
        for (key, entry) in &state.objects {
            follower.follow(key, None, entry.visible().map(Arc::as_ref));
        }
        state.followers.push(follower);
    }

    fn change(
        &self,
        state: &mut State<K>,
        key: Key,
        new: Option<Arc<K>>,
        revision: Revision,
        shown: Shown,
    ) -> Option<Delta<K>> {
        state.revision = state.revision.max(revision);
        let epoch = state.epoch;
        let entry = state.objects.entry(key.clone()).or_insert_with(|| Entry::empty(epoch));
        entry.epoch = epoch;
        if shown != Shown::Live && revision < entry.revision {
            // What we know is newer than a list: it is of a history that the server has lost.
            entry.disown_after(revision);
            entry.revision = Revision::ZERO;
        }
        if new.is_some() && entry.seen.is_some() && revision <= entry.revision && revision != Revision::ZERO {
            return None;
        }
        let before = entry.visible().cloned();
        let old = entry.seen.clone();
        let is_echo = entry.observe(new.clone(), revision);
        let after = entry.visible().cloned();
        if entry.is_empty() {
            state.objects.remove(&key);
        }
        self.follow(state, &key, before.as_deref(), after.as_deref());
        let change = sort_of(old.is_some(), new.is_some(), shown == Shown::First);
        let is_while_writing = self.is_writing(&key);
        Some(Delta { key, old, new, change, revision, is_echo, is_while_writing })
    }

    /// What we wrote after `revision` was written in a history that the server has lost.
    fn disown(&self, state: &mut State<K>, revision: Revision) -> Vec<Delta<K>> {
        let mut undone = Vec::new();
        let mut objects = std::mem::take(&mut state.objects);
        objects.retain(|key, entry| {
            let old = entry.visible().cloned();
            if entry.disown_after(revision) {
                let new = entry.visible().cloned();
                self.follow(state, key, old.as_deref(), new.as_deref());
                let change = sort_of(old.is_some(), new.is_some(), false);
                let (key, is_echo, is_while_writing) = (key.clone(), false, false);
                undone.push(Delta { key, old, new, change, revision, is_echo, is_while_writing });
            }
            !entry.is_empty()
        });
        state.objects = objects;
        undone.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        undone
    }

    /// Removes an object that a complete list did not mention.
    fn sweep(&self, state: &mut State<K>, key: Key, revision: Revision) -> Option<Delta<K>> {
        let entry = state.objects.get_mut(&key)?;
        let before = entry.visible().cloned();
        let old = entry.seen.clone();
        entry.missing_at(revision);
        let after = entry.visible().cloned();
        if entry.is_empty() {
            state.objects.remove(&key);
        }
        self.follow(state, &key, before.as_deref(), after.as_deref());
        let old = Some(old?);
        let (change, is_echo, is_while_writing) = (Change::Missed, false, false);
        Some(Delta { key, old, new: None, change, revision, is_echo, is_while_writing })
    }

    fn follow(&self, state: &State<K>, key: &Key, old: Option<&K>, new: Option<&K>) {
        follow_owners(&self.0.owners, key, old, new);
        state.followers.iter().for_each(|follower| follower.follow(key, old, new));
    }

    fn tell(&self, delta: &Delta<K>) {
        let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        subscribers.iter().for_each(|subscriber| subscriber(delta));
    }

    fn tell_poison(&self, key: &Key, is_list: bool) {
        let subscribers = self.0.poison_subscribers.read().unwrap_or_else(PoisonError::into_inner);
        subscribers.iter().for_each(|subscriber| subscriber(key, is_list));
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write of ours under way.
pub(crate) struct Writing<K: Kind> {
    cache: Cache<K>,
    key: Key,
}

impl<K: Kind> Drop for Writing<K> {
    fn drop(&mut self) {
        let mut writing = self.cache.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = writing.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                writing.remove(&self.key);
            }
        }
    }
}

fn sort_of(was_there: bool, is_there: bool, is_list: bool) -> Change {
    match (was_there, is_there) {
        (_, false) => Change::Deleted,
        (true, true) => Change::Modified,
        (false, true) if is_list => Change::Listed,
        (false, true) => Change::Added,
    }
}

/// From owner uid to the keys of its dependents.
type Owners = RwLock<HashMap<Box<str>, std::collections::BTreeSet<Key>>>;

fn follow_owners<K: Kind>(owners: &Owners, key: &Key, old: Option<&K>, new: Option<&K>) {
    let uids = |object: Option<&K>| -> Vec<Box<str>> {
        let references =
            object.and_then(|object| object.meta().owner_references.as_deref()).unwrap_or_default();
        references.iter().map(|reference| reference.uid.as_str().into()).collect()
    };
    let (old, new) = (uids(old), uids(new));
    if old == new {
        return;
    }
    let mut owners = owners.write().unwrap_or_else(PoisonError::into_inner);
    for uid in old {
        if let Some(keys) = owners.get_mut(&uid) {
            keys.remove(key);
            if keys.is_empty() {
                owners.remove(&uid);
            }
        }
    }
    for uid in new {
        owners.entry(uid).or_default().insert(key.clone());
    }
}
