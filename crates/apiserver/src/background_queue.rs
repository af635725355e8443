//! Queues objects for the background tasks to look at, and indexes dependents by owner.
//!
//! Every commit passes through [`BackgroundQueue::observe`]. Thanks to the index, the cost of garbage collection grows
//! with the dependents, not with the cluster. It may briefly name objects that are gone; readers must check.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use homeostat_api::crd;
use homeostat_api::kinds::admissionregistration::validating_admission_policy::VALIDATING_ADMISSION_POLICY;
use homeostat_api::kinds::apiregistration::api_service::API_SERVICE;
use homeostat_api::kinds::certificates::certificate_signing_request::CERTIFICATE_SIGNING_REQUEST;
use homeostat_api::kinds::core::config_map::{CONFIG_MAP, ROOT_CA};
use homeostat_api::kinds::core::endpoints::ENDPOINTS;
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::kinds::core::node::NODE;
use homeostat_api::kinds::core::persistent_volume::PERSISTENT_VOLUME;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::kinds::core::secret::SECRET;
use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::kinds::core::service_account::SERVICE_ACCOUNT;
use homeostat_api::kinds::discovery::endpoint_slice::ENDPOINT_SLICE;
use homeostat_api::kinds::rbac::cluster_role::CLUSTER_ROLE;
use homeostat_api::object::meta;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::{Key, Prefix};
use homeostat_store::{Committed, Entry, Error as StoreError, Snapshot};
use memchr::memmem;
use tokio::sync::Notify;

use crate::stored::encode;
use crate::stored::labels_and_owners::LabelsAndOwners;

const NAMESPACES: ResourceIdentity<'static> = NAMESPACE.storage();
const SERVICE_ACCOUNTS: ResourceIdentity<'static> = SERVICE_ACCOUNT.storage();
const CONFIG_MAPS: ResourceIdentity<'static> = CONFIG_MAP.storage();
const CLUSTER_ROLES: ResourceIdentity<'static> = CLUSTER_ROLE.storage();
const REQUESTS: ResourceIdentity<'static> = CERTIFICATE_SIGNING_REQUEST.storage();
const POLICIES: ResourceIdentity<'static> = VALIDATING_ADMISSION_POLICY.storage();
const SECRETS: ResourceIdentity<'static> = SECRET.storage();
const API_SERVICES: ResourceIdentity<'static> = API_SERVICE.storage();
const QUOTAS: ResourceIdentity<'static> = RESOURCE_QUOTA.storage();
const SERVICES: ResourceIdentity<'static> = SERVICE.storage();
const NODES: ResourceIdentity<'static> = NODE.storage();
const PODS: ResourceIdentity<'static> = POD.storage();
const CLAIMS: ResourceIdentity<'static> = PERSISTENT_VOLUME_CLAIM.storage();
const VOLUMES: ResourceIdentity<'static> = PERSISTENT_VOLUME.storage();

/// Something for the background tasks to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BackgroundNotice {
    /// An object that has owners, or is marked for deletion.
    Object(Key),
    /// The dependents of an object that is gone.
    Gone(Box<str>),
    /// A namespace.
    Namespace(Box<str>),
    /// A definition.
    Definition(Box<str>),
    /// A Node.
    Node(Box<str>),
    /// The quotas of a namespace: usage in it decreased, or one of them changed.
    Quotas(Box<str>),
    /// A certificate request.
    CertificateRequest(Box<str>),
    /// A ValidatingAdmissionPolicy whose expressions must be checked.
    PolicyTypes(Box<str>),
    /// The Secrets of a namespace that hold account tokens.
    TokenSecrets(Box<str>),
    /// All ClusterRoles: one of them changed, and others may aggregate it.
    ClusterRoles,
    /// The server's own Service and endpoints: one is gone.
    ApiServer,
    /// The APIServices: one is gone.
    ApiServices,
}

/// The notices for the background tasks, each at most once.
#[derive(Default)]
pub(crate) struct BackgroundQueue {
    state: Mutex<NoticeState>,
    /// Signals a new notice.
    arrived: Notify,
    /// Signals an abandoned commit.
    left: Notify,
}

/// A key that is written, and the entry it had before.
pub(crate) type ReplacedEntry = (Key, Option<Arc<Entry>>);

/// A submitted commit whose outcome is not known yet.
pub(crate) struct AbandonedCommit {
    /// The keys of its steps, each with the entry that is replaced.
    pub(crate) replaced: Vec<ReplacedEntry>,
    pub(crate) outcome: BoxFuture<'static, Result<Committed, StoreError>>,
}

#[derive(Default)]
struct NoticeState {
    waiting: NoticeQueue,
    /// Commits that no request waits for any more.
    abandoned: Vec<AbandonedCommit>,
    dependents: BTreeMap<Box<str>, BTreeSet<Key>>,
    /// Namespaces being deleted: an object that leaves one is a reason to check again.
    ending_namespaces: BTreeSet<Box<str>>,
    /// The storage of definitions that are being deleted, with the definition's name.
    ending_resources: BTreeMap<Prefix, Box<str>>,
    /// Owners that are deleted after their dependents, by uid.
    waiting_owners: BTreeMap<Box<str>, Key>,
    /// Claims, volumes and classes that are deleted once they are unused.
    waiting_storage: BTreeSet<Key>,
    /// Namespaces with quotas: an object that leaves one is a reason to count again.
    quota_namespaces: BTreeSet<Box<str>>,
}

/// The notices in order of arrival, without duplicates: a definition gets its turn even while many objects change.
#[derive(Default)]
struct NoticeQueue {
    queue: VecDeque<BackgroundNotice>,
    known: BTreeSet<BackgroundNotice>,
}

impl NoticeQueue {
    fn insert(&mut self, notice: BackgroundNotice) {
        if self.known.insert(notice.clone()) {
            self.queue.push_back(notice);
        }
    }

    fn take(&mut self) -> Option<BackgroundNotice> {
        let notice = self.queue.pop_front()?;
        self.known.remove(&notice);
        Some(notice)
    }
}

impl BackgroundQueue {
    /// Returns the same index of dependents without notices, for a server on a copy of the store.
    pub(crate) fn forked(&self) -> Self {
        let state = self.state();
        let copy = NoticeState {
            waiting: NoticeQueue::default(),
            abandoned: Vec::new(),
            dependents: state.dependents.clone(),
            ending_namespaces: state.ending_namespaces.clone(),
            ending_resources: state.ending_resources.clone(),
            waiting_owners: state.waiting_owners.clone(),
            waiting_storage: state.waiting_storage.clone(),
            quota_namespaces: state.quota_namespaces.clone(),
        };
        Self { state: Mutex::new(copy), arrived: Notify::new(), left: Notify::new() }
    }

    /// Takes the next notice, if there is one.
    pub(crate) fn take(&self) -> Option<BackgroundNotice> {
        self.state().waiting.take()
    }

    /// Returns the next notice without taking it, if there is one.
    pub(crate) fn peek(&self) -> Option<BackgroundNotice> {
        self.state().waiting.queue.front().cloned()
    }

    fn state(&self) -> MutexGuard<'_, NoticeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a notice.
    pub(crate) fn leave(&self, notice: BackgroundNotice) {
        self.state().waiting.insert(notice);
        self.arrived.notify_one();
    }

    /// Adds several notices.
    pub(crate) fn leave_all(&self, notices: &mut Vec<BackgroundNotice>) {
        for notice in notices.drain(..) {
            self.leave(notice);
        }
    }

    /// Waits for the next notice and takes it.
    pub(crate) async fn next(&self) -> BackgroundNotice {
        loop {
            let arrived = self.arrived.notified();
            if let Some(notice) = self.state().waiting.take() {
                return notice;
            }
            arrived.await;
        }
    }

    /// Takes over a commit whose client disconnected before it got the response.
    pub(crate) fn abandon(&self, commit: AbandonedCommit) {
        self.state().abandoned.push(commit);
        self.left.notify_one();
    }

    /// Waits for the next abandoned commit and takes it.
    pub(crate) async fn next_abandoned(&self) -> AbandonedCommit {
        loop {
            let left = self.left.notified();
            if let Some(commit) = self.state().abandoned.pop() {
                return commit;
            }
            left.await;
        }
    }

    /// Returns the keys that may depend on the owner with this uid.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.state().dependents.get(uid).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// Remembers that an owner waits for its dependents (or no longer does).
    pub(crate) fn set_waiting_owner(&self, uid: &str, key: Option<&Key>) {
        let mut state = self.state();
        match key {
            Some(key) => state.waiting_owners.insert(uid.into(), key.clone()),
            None => state.waiting_owners.remove(uid),
        };
    }

    /// Adds a notice for the owner with this uid, if it is waiting.
    pub(crate) fn leave_waiting_owner(&self, uid: &str) {
        let key = self.state().waiting_owners.get(uid).cloned();
        if let Some(key) = key {
            self.leave(BackgroundNotice::Object(key));
        }
    }

    /// Remembers that storage is to be released once it is unused.
    pub(crate) fn add_waiting_storage(&self, key: &Key) {
        self.state().waiting_storage.insert(key.clone());
    }

    /// Forgets storage that is no longer waiting.
    pub(crate) fn remove_waiting_storage(&self, key: &Key) {
        self.state().waiting_storage.remove(key);
    }

    /// Requests a count of a namespace's quotas, because a writer other than the server wrote a status.
    pub(crate) fn add_quota_count(&self, namespace: &str) {
        self.state().waiting.insert(BackgroundNotice::Quotas(namespace.into()));
        self.arrived.notify_one();
    }

    /// Forgets a namespace that no longer has quotas.
    pub(crate) fn forget_quotas(&self, namespace: &str) {
        self.state().quota_namespaces.remove(namespace);
    }

    /// Remembers that a namespace is being deleted.
    pub(crate) fn add_ending_namespace(&self, name: &str) {
        self.state().ending_namespaces.insert(name.into());
    }

    /// Forgets a namespace that is gone or has been re-created.
    pub(crate) fn remove_ending_namespace(&self, name: &str) {
        self.state().ending_namespaces.remove(name);
    }

    /// Remembers that the objects of a definition are deleted with it.
    pub(crate) fn set_resource_ending(&self, objects: &Prefix, definition: Option<&str>) {
        let mut state = self.state();
        match definition {
            Some(name) => state.ending_resources.insert(objects.clone(), name.into()),
            None => state.ending_resources.remove(objects),
        };
    }

    /// Fills the index and the queue from the stored objects, at startup.
    pub(crate) fn rebuild(&self, snapshot: &Snapshot) {
        for entry in snapshot.iter() {
            self.observe(&entry.key, None, Some(entry), || Some(entry.clone()));
        }
    }

    /// Observes a commit. Commits to one key may be observed in a different order from the one in which they were
    /// committed (a Pod is re-created as soon as its deletion is seen), so `current` returns the stored entry, under
    /// the lock.
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
        state.observe_quotas(key, old, new);
        let is_more = state.waiting.queue.len() > before;
        drop(state);
        if is_more {
            self.arrived.notify_one();
        }
    }
}

impl NoticeState {
    fn observe_owners(
        &mut self,
        key: &Key,
        old: Option<&Arc<Entry>>,
        new: Option<&Arc<Entry>>,
        current: impl FnOnce() -> Option<Arc<Entry>>,
    ) {
        let of = |entry: Option<&Arc<Entry>>| {
            entry.map(|entry| LabelsAndOwners::from_entry(entry).owners.to_vec()).unwrap_or_default()
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
                self.waiting.insert(BackgroundNotice::Object(key.clone()));
            }
        }
        match new {
            Some(entry) if is_marked(entry) => {
                self.waiting.insert(BackgroundNotice::Object(key.clone()));
            }
            Some(_) => {}
            None => self.observe_deletion(old),
        }
        // An owner that waits for its dependents is checked again when one of them leaves it.
        let stays = after.iter().collect::<HashSet<_>>();
        for owner in before.iter().filter(|uid| !stays.contains(uid)) {
            self.waiting.insert(BackgroundNotice::Gone(owner.clone()));
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
            let object = encode::parse_entry(entry);
            self.waiting.insert(BackgroundNotice::Gone(meta::uid(&object).into()));
        }
    }

    /// Leaves a notice if the quotas of the namespace may show more than is used. Additional usage is charged in its
    /// own commit.
    fn observe_quotas(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let is_reason = match (ResourceIdentity::of_key(key), old, new) {
            (QUOTAS, old, Some(new)) => {
                self.quota_namespaces.insert(key.namespace().into());
                is_uncounted(old, new)
            }
            _ if self.quota_namespaces.is_empty() => return,
            (_, _, None) | (SERVICES | CLAIMS, Some(_), _) => true,
            (PODS, Some(old), Some(new)) => has_ended(new) && !has_ended(old),
            _ => false,
        };
        if is_reason && self.quota_namespaces.contains(key.namespace()) {
            self.waiting.insert(BackgroundNotice::Quotas(key.namespace().into()));
        }
    }

    fn observe_kind(&mut self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let storage = ResourceIdentity::of_key(key);
        match storage {
            NAMESPACES => {
                self.waiting.insert(BackgroundNotice::Namespace(key.name().into()));
            }
            crd::STORAGE => {
                self.waiting.insert(BackgroundNotice::Definition(key.name().into()));
            }
            NODES if new.is_some() => {
                self.waiting.insert(BackgroundNotice::Node(key.name().into()));
            }
            CLUSTER_ROLES => {
                self.waiting.insert(BackgroundNotice::ClusterRoles);
            }
            REQUESTS if new.is_some() => {
                self.waiting.insert(BackgroundNotice::CertificateRequest(key.name().into()));
            }
            POLICIES if new.is_some() => {
                self.waiting.insert(BackgroundNotice::PolicyTypes(key.name().into()));
            }
            SECRETS if new.is_some_and(|entry| is_token_secret(entry)) => {
                self.waiting.insert(BackgroundNotice::TokenSecrets(key.namespace().into()));
            }
            SERVICE_ACCOUNTS | CONFIG_MAPS if new.is_none() || key.name() == ROOT_CA => {
                self.waiting.insert(BackgroundNotice::Namespace(key.namespace().into()));
                if storage == SERVICE_ACCOUNTS {
                    self.waiting.insert(BackgroundNotice::TokenSecrets(key.namespace().into()));
                }
            }
            _ => {}
        }
        if old.is_some() && new.is_none() {
            if is_api_server(key) {
                self.waiting.insert(BackgroundNotice::ApiServer);
            }
            if ResourceIdentity::of_key(key) == API_SERVICES {
                self.waiting.insert(BackgroundNotice::ApiServices);
            }
            if is_storage_user(key) {
                for key in &self.waiting_storage {
                    self.waiting.insert(BackgroundNotice::Object(key.clone()));
                }
            }
            if self.ending_namespaces.contains(key.namespace()) {
                self.waiting.insert(BackgroundNotice::Namespace(key.namespace().into()));
            }
            if !self.ending_resources.is_empty()
                && let Some(name) = self.ending_resources.get(&storage.prefix())
            {
                self.waiting.insert(BackgroundNotice::Definition(name.clone()));
            }
        }
    }
}

/// Returns whether a quota was written without counting its usage, because its limits are new.
fn is_uncounted(old: Option<&Arc<Entry>>, new: &Entry) -> bool {
    let (new, old) = (encode::parse_entry(new), old.map(|old| encode::parse_entry(old)));
    old.is_none_or(|old| old["spec"] != new["spec"]) || new["status"]["hard"] != new["spec"]["hard"]
}

/// Returns whether a Pod has terminated.
fn has_ended(pod: &Entry) -> bool {
    [&b"\"phase\":\"Succeeded\""[..], b"\"phase\":\"Failed\""]
        .iter()
        .any(|phase| memmem::find(&pod.bytes, phase).is_some())
}

/// Returns whether a Secret may hold the token of an account. This test is cheap; the handler of the notice checks
/// properly.
fn is_token_secret(secret: &Entry) -> bool {
    memmem::find(&secret.bytes, b"kubernetes.io/service-account-token").is_some()
}

/// Returns whether this is the server's own Service or endpoints.
fn is_api_server(key: &Key) -> bool {
    let is_kind = [&SERVICE, &ENDPOINTS, &ENDPOINT_SLICE]
        .map(BuiltInKind::storage)
        .contains(&ResourceIdentity::of_key(key));
    is_kind && key.namespace() == "default" && key.name() == "kubernetes"
}

/// Returns whether removing this object may make storage unused.
fn is_storage_user(key: &Key) -> bool {
    matches!(ResourceIdentity::of_key(key), PODS | CLAIMS | VOLUMES)
}

/// Returns whether this entry may be marked for deletion. This test is cheap; the handler of the notice checks
/// properly.
fn is_marked(entry: &Entry) -> bool {
    memmem::find(&entry.bytes, b"\"deletionTimestamp\"").is_some()
}

#[cfg(test)]
mod tests;
