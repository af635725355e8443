//! What the keeper should look at, and who depends on whom.
//!
//! Every commit passes [`Notices::observe`]. The index from owner to dependents is what makes collection cost grow
//! with the dependents, not with the cluster. It may briefly name objects that are gone; readers check.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use homeostat_core::{Key, Prefix};
use homeostat_store::{Committed, Entry, Error as StoreError};
use memchr::memmem;
use tokio::sync::Notify;

use super::{namespaces, roles, services, storage};
use crate::backend::Backend;
use crate::bootstrap::is_api_server;
use crate::crd;
use crate::kinds::core::config_map::CONFIG_MAP;
use crate::kinds::core::namespace::NAMESPACE;
use crate::kinds::core::service_account::SERVICE_ACCOUNT;
use crate::object::encode;
use crate::object::meta;
use crate::object::view::View;
use crate::storage::Storage;

const NAMESPACES: Storage<'static> = NAMESPACE.storage();
const SERVICE_ACCOUNTS: Storage<'static> = SERVICE_ACCOUNT.storage();
const CONFIG_MAPS: Storage<'static> = CONFIG_MAP.storage();

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Notice {
    /// An object that has owners, or is marked for deletion.
    Object(Key),
    /// The dependents of an object that is gone.
    Gone(Box<str>),
    /// A namespace.
    Namespace(Box<str>),
    /// A definition.
    Definition(Box<str>),
    /// All ClusterRoles: one of them changed, and others may sum it up.
    ClusterRoles,
    /// The objects by which the server is found: one is gone.
    ApiServer,
    /// The APIServices: one is gone.
    ApiServices,
}

/// Notices left for the keeper, each at most once.
#[derive(Default)]
pub(crate) struct Notices {
    state: Mutex<State>,
    /// A notice is there.
    arrived: Notify,
    /// A commit was abandoned.
    left: Notify,
}

/// A commit that was submitted and whose outcome is not known yet.
pub(crate) struct Abandoned {
    pub(crate) key: Key,
    pub(crate) old: Option<Arc<Entry>>,
    pub(crate) outcome: BoxFuture<'static, Result<Committed, StoreError>>,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    /// Commits nobody waits for any more.
    abandoned: Vec<Abandoned>,
    dependents: BTreeMap<Box<str>, BTreeSet<Key>>,
    /// Namespaces being deleted: what leaves them is a reason to look again.
    ending_namespaces: BTreeSet<Box<str>>,
    /// Where the objects of definitions being deleted are, with the definition's name.
    ending_resources: BTreeMap<Prefix, Box<str>>,
    /// Owners that go after their dependents, by uid.
    waiting_owners: BTreeMap<Box<str>, Key>,
    /// Claims, volumes and classes that go when nobody uses them any more.
    waiting_storage: BTreeSet<Key>,
}

/// Notices in the order they came, each once: where many objects change, a definition gets its turn all the same.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<Notice>,
    known: BTreeSet<Notice>,
}

impl Waiting {
    fn insert(&mut self, notice: Notice) {
        if self.known.insert(notice.clone()) {
            self.queue.push_back(notice);
        }
    }

    fn take(&mut self) -> Option<Notice> {
        let notice = self.queue.pop_front()?;
        self.known.remove(&notice);
        Some(notice)
    }
}

impl Notices {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a notice.
    pub(crate) fn leave(&self, notice: Notice) {
        self.state().waiting.insert(notice);
        self.arrived.notify_one();
    }

    /// Leaves several.
    pub(super) fn leave_all(&self, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            self.leave(notice);
        }
    }

    /// Waits for the next notice and takes it.
    pub(super) async fn next(&self) -> Notice {
        loop {
            let arrived = self.arrived.notified();
            if let Some(notice) = self.state().waiting.take() {
                return notice;
            }
            arrived.await;
        }
    }

    /// Takes over a commit whose client left before the answer.
    pub(crate) fn abandon(&self, commit: Abandoned) {
        self.state().abandoned.push(commit);
        self.left.notify_one();
    }

    /// Waits for the next such commit and takes it.
    pub(super) async fn next_abandoned(&self) -> Abandoned {
        loop {
            let left = self.left.notified();
            if let Some(commit) = self.state().abandoned.pop() {
                return commit;
            }
            left.await;
        }
    }

    /// The keys that may depend on the owner with this uid.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.state().dependents.get(uid).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// Remembers that an owner waits for its dependents (or no longer does).
    pub(super) fn set_waiting_owner(&self, uid: &str, key: Option<&Key>) {
        let mut state = self.state();
        match key {
            Some(key) => state.waiting_owners.insert(uid.into(), key.clone()),
            None => state.waiting_owners.remove(uid),
        };
    }

    /// Has the owner with this uid looked at again, if it waits.
    pub(super) fn leave_waiting_owner(&self, uid: &str) {
        let key = self.state().waiting_owners.get(uid).cloned();
        if let Some(key) = key {
            self.leave(Notice::Object(key));
        }
    }

    /// Remembers that storage waits for its users (or no longer does).
    pub(super) fn set_waiting_storage(&self, key: &Key, is_waiting: bool) {
        let mut state = self.state();
        if is_waiting {
            state.waiting_storage.insert(key.clone());
        } else {
            state.waiting_storage.remove(key);
        }
    }

    /// Remembers that a namespace ends (or has ended).
    pub(super) fn set_namespace_ending(&self, name: &str, is_ending: bool) {
        let mut state = self.state();
        if is_ending {
            state.ending_namespaces.insert(name.into());
        } else {
            state.ending_namespaces.remove(name);
        }
    }

    /// Remembers that the objects of a definition end with it.
    pub(super) fn set_resource_ending(&self, objects: &Prefix, definition: Option<&str>) {
        let mut state = self.state();
        match definition {
            Some(name) => state.ending_resources.insert(objects.clone(), name.into()),
            None => state.ending_resources.remove(objects),
        };
    }

    /// Fills index and notices from what is stored: at start.
    pub(super) fn rebuild(&self, backend: &Backend) {
        let snapshot = backend.store.snapshot();
        for entry in snapshot.iter() {
            self.observe(&entry.key, None, Some(entry), || Some(entry.clone()));
        }
    }

    /// Takes note of a commit. Commits of one key may be noted in another order than they were made (a Pod is created
    /// anew as soon as its deletion is seen), so `current` is asked for what is there now, while nobody else takes note.
    pub(crate) fn observe(
        &self,
        key: &Key,
        old: Option<&Arc<Entry>>,
        new: Option<&Arc<Entry>>,
        current: impl FnOnce() -> Option<Arc<Entry>>,
    ) {
        let mut state = self.state();
        let before = state.waiting.queue.len();
        state.observe_owners(key, old, new, current);
        state.observe_kind(key, old, new);
        let is_more = state.waiting.queue.len() > before;
        drop(state);
        if is_more {
            self.arrived.notify_one();
        }
    }
}

impl State {
    fn observe_owners(
        &mut self,
        key: &Key,
        old: Option<&Arc<Entry>>,
        new: Option<&Arc<Entry>>,
        current: impl FnOnce() -> Option<Arc<Entry>>,
    ) {
        let of = |entry: Option<&Arc<Entry>>| {
            entry.map(|entry| View::of_entry(entry).owners.to_vec()).unwrap_or_default()
        };
        let (before, after) = (of(old), of(new));
        if before != after {
            let now = of(current().as_ref());
            let is_there = now.iter().collect::<HashSet<_>>();
            for uid in before.iter().chain(&after).filter(|uid| !is_there.contains(uid)) {
                self.forget(uid, key);
            }
            for uid in now {
                self.dependents.entry(uid).or_default().insert(key.clone());
            }
            if !after.is_empty() {
                self.waiting.insert(Notice::Object(key.clone()));
            }
        }
        match new {
            Some(entry) if is_marked(entry) => {
                self.waiting.insert(Notice::Object(key.clone()));
            }
            Some(_) => {}
            None => self.observe_deletion(old),
        }
        // An owner that waits for its dependents looks again when one of them leaves it.
        let stays = after.iter().collect::<HashSet<_>>();
        for owner in before.iter().filter(|uid| !stays.contains(uid)) {
            self.waiting.insert(Notice::Gone(owner.clone()));
        }
    }

    fn forget(&mut self, uid: &str, key: &Key) {
        if let Some(keys) = self.dependents.get_mut(uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.dependents.remove(uid);
            }
        }
    }

    fn observe_deletion(&mut self, old: Option<&Arc<Entry>>) {
        if let Some(entry) = old
            && !self.dependents.is_empty()
        {
            let object = encode::decode(entry);
            self.waiting.insert(Notice::Gone(meta::uid(&object).into()));
        }
    }

    fn observe_kind(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let storage = Storage::of_key(key);
        match storage {
            NAMESPACES => {
                self.waiting.insert(Notice::Namespace(key.name().into()));
            }
            crd::STORAGE => {
                self.waiting.insert(Notice::Definition(key.name().into()));
            }
            roles::STORAGE => {
                self.waiting.insert(Notice::ClusterRoles);
            }
            SERVICE_ACCOUNTS | CONFIG_MAPS if new.is_none() || key.name() == namespaces::ROOT_CA => {
                self.waiting.insert(Notice::Namespace(key.namespace().into()));
            }
            _ => {}
        }
        if old.is_some() && new.is_none() {
            if is_api_server(key) {
                self.waiting.insert(Notice::ApiServer);
            }
            if services::is_api_service(key) {
                self.waiting.insert(Notice::ApiServices);
            }
            if storage::is_user(key) {
                for key in &self.waiting_storage {
                    self.waiting.insert(Notice::Object(key.clone()));
                }
            }
            if self.ending_namespaces.contains(key.namespace()) {
                self.waiting.insert(Notice::Namespace(key.namespace().into()));
            }
            if !self.ending_resources.is_empty()
                && let Some(name) = self.ending_resources.get(&storage.prefix())
            {
                self.waiting.insert(Notice::Definition(name.clone()));
            }
        }
    }
}

/// May this entry be marked for deletion? A cheap test; the keeper looks properly.
fn is_marked(entry: &Entry) -> bool {
    memmem::find(&entry.bytes, b"\"deletionTimestamp\"").is_some()
}

#[cfg(test)]
mod tests {
    use homeostat_core::Revision;

    use super::*;

    fn entry(key: &Key, json: &str) -> Arc<Entry> {
        Arc::new(Entry::new(key.clone(), Revision::new(1), &homeostat_store::Value::plain(json.to_owned())))
    }

    #[test]
    fn dependents_follow_owner_references() {
        let notices = Notices::default();
        let key = Key::new("", "pods", "d", "x");
        let owned = entry(&key, r#"{"metadata":{"ownerReferences":[{"uid":"u"}]}}"#);
        notices.observe(&key, None, Some(&owned), || Some(owned.clone()));
        assert_eq!(notices.dependents("u"), std::slice::from_ref(&key));
        notices.observe(&key, Some(&owned), None, || None);
        assert!(notices.dependents("u").is_empty());
    }

    /// A Pod is created anew as soon as somebody sees that the one before is gone, and may be noted first.
    #[test]
    fn a_dependent_made_anew_stays_known_whoever_is_noted_first() {
        let notices = Notices::default();
        let key = Key::new("", "pods", "d", "x");
        let owned = |uid: &str| {
            entry(&key, &format!(r#"{{"metadata":{{"uid":"{uid}","ownerReferences":[{{"uid":"u"}}]}}}}"#))
        };
        let (former, present) = (owned("former"), owned("present"));
        notices.observe(&key, None, Some(&former), || Some(former.clone()));
        notices.observe(&key, None, Some(&present), || Some(present.clone()));
        notices.observe(&key, Some(&former), None, || Some(present.clone()));
        assert_eq!(notices.dependents("u"), std::slice::from_ref(&key));
        // Both gone, noted the wrong way round: nothing stays behind.
        notices.observe(&key, Some(&present), None, || None);
        notices.observe(&key, None, Some(&present), || None);
        assert!(notices.dependents("u").is_empty());
    }

    #[test]
    fn notices_wait_in_the_order_they_came_each_once() {
        let mut waiting = Waiting::default();
        let object = |name: &str| Notice::Object(Key::new("", "pods", "d", name));
        for notice in [Notice::Definition("d".into()), object("b"), object("a"), object("b")] {
            waiting.insert(notice);
        }
        let taken = std::iter::from_fn(|| waiting.take()).collect::<Vec<_>>();
        assert_eq!(taken, [Notice::Definition("d".into()), object("b"), object("a")]);
        waiting.insert(object("b"));
        assert_eq!(waiting.take(), Some(object("b")));
    }
}
