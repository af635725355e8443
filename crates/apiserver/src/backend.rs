//! Holds the parts that every request works with: the store, the registry, the authorizer, the clock and the source of
//! randomness.
//!
//! **Invariant:** every write by the server passes through [`Backend::commit`], so the background tasks see each one,
//! even if the client disconnects before it gets the response.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::kinds::core::service::service_allocator::ServiceAllocator;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_store::{Committed, Entry, Error, Expect, Op, SharedStore, Snapshot, Txn};

use crate::auth::Authorizer;
use crate::background_queue::{AbandonedCommit, BackgroundQueue, ReplacedEntry};
use crate::conversion::Conversions;
use crate::logs::LogSource;
use crate::namespace_locks::NamespaceLocks;
use crate::registry::Registry;
use crate::seen_kinds::SeenKinds;
use crate::stored::encode;
use crate::streams::StreamSource;
use crate::webhook_client::WebhookClient;
use crate::write_history::WriteHistory;

/// The maximum size of a stored object. In Kubernetes this is etcd's request limit, and clients rely on it.
const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// The default limit for the total size of all stored objects, the same as in etcd. All objects, and their history, are
/// held in memory.
pub(crate) const STORE_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// The total size of all stored objects, and its limit.
///
/// **Invariant:** the size is the sum of the sizes of all entries; every commit by the server updates it.
pub(crate) struct StoreSize {
    bytes: AtomicI64,
    bytes_max: usize,
}

impl StoreSize {
    /// Creates a counter with this limit.
    fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicI64::new(0), bytes_max }
    }

    /// Returns the same limit with the same size counted.
    fn forked(&self) -> Self {
        Self { bytes: AtomicI64::new(self.bytes.load(Ordering::Relaxed)), bytes_max: self.bytes_max }
    }

    /// Sets the size to that of the stored objects.
    pub(crate) fn observe(&self, snapshot: &Snapshot) {
        let bytes = snapshot.iter().map(|entry| entry.bytes.len() as u64).sum::<u64>();
        self.bytes.store(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Returns whether the store may grow by this much. Values that are no larger than the ones they replace, and
    /// deletions, are always accepted.
    fn fits(&self, growth: usize) -> bool {
        let held = usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or_default();
        growth == 0 || held.saturating_add(growth) <= self.bytes_max
    }

    fn record_change(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let bytes =
            |entry: Option<&Arc<Entry>>| entry.map_or(0, |entry| entry.bytes.len() as u64).cast_signed();
        self.bytes.fetch_add(bytes(new) - bytes(old), Ordering::Relaxed);
    }
}

/// A step of a commit besides its main one: a condition, or a write that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct CommitStep {
    pub(crate) key: Key,
    pub(crate) expect: Expect,
    pub(crate) op: Op,
    /// The entry that a write replaces.
    pub(crate) old: Option<Arc<Entry>>,
}

impl CommitStep {
    /// Creates a step that only checks a condition on another key.
    pub(crate) fn check(key: Key, expect: Expect) -> Self {
        Self { key, expect, op: Op::Check, old: None }
    }
}

/// The shared state of a server.
pub(crate) struct Backend {
    pub(crate) store: SharedStore,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) registry: Registry,
    pub(crate) authorizer: Authorizer,
    pub(crate) notices: BackgroundQueue,
    /// Allocator of addresses and ports for Services.
    pub(crate) services: ServiceAllocator,
    /// The total size of the stored objects.
    pub(crate) size: StoreSize,
    /// Which of the kinds that admission looks up have objects.
    pub(crate) seen_kinds: SeenKinds,
    /// The source of Pod logs, once a node has registered one.
    pub(crate) logs: OnceLock<Arc<dyn LogSource>>,
    /// The source of connections to containers, once a node has registered one.
    pub(crate) streams: OnceLock<Arc<dyn StreamSource>>,
    /// The history of recent writes.
    pub(crate) writes: WriteHistory,
    /// Calls users' webhooks.
    pub(crate) webhooks: Arc<WebhookClient>,
    /// Converts custom objects.
    pub(crate) conversions: Conversions,
    /// Held while a quota is written, so that the quotas of a namespace stay within their limits.
    pub(crate) quota_writes: NamespaceLocks,
    /// Held while a Role or RoleBinding is written, so that those of a namespace stay within their limits.
    pub(crate) role_writes: NamespaceLocks,
    /// Held while a request counts for quotas.
    pub(crate) quota_counts: NamespaceLocks,
}

impl Backend {
    /// Creates the state of a server for a store.
    pub(crate) fn new(
        store: SharedStore,
        clock: Clock,
        entropy: Entropy,
        store_bytes_max: usize,
    ) -> Result<Self, Error> {
        let webhooks = Arc::new(WebhookClient::new(Arc::clone(&store), entropy.clone()));
        Ok(Self {
            conversions: Conversions::new(Arc::clone(&webhooks), entropy.clone()),
            webhooks,
            authorizer: Authorizer::new(Arc::clone(&store)),
            registry: Registry::new(Arc::clone(&store))?,
            notices: BackgroundQueue::default(),
            services: ServiceAllocator::default(),
            size: StoreSize::new(store_bytes_max),
            seen_kinds: SeenKinds::default(),
            logs: OnceLock::new(),
            streams: OnceLock::new(),
            writes: WriteHistory::new(clock.now()),
            quota_writes: NamespaceLocks::default(),
            role_writes: NamespaceLocks::default(),
            quota_counts: NamespaceLocks::default(),
            store,
            clock,
            entropy,
        })
    }

    /// Reserves the addresses that stored Services hold.
    pub(crate) fn observe_services(&self) {
        for entry in self.store.snapshot().range(&SERVICE.storage().prefix(), "") {
            self.services.observe(&encode::parse_entry(entry));
        }
    }

    /// Returns the same state for a copy of the store in its current state. This reads nothing again, so it takes
    /// microseconds.
    pub(crate) fn forked(&self, store: SharedStore, clock: Clock, entropy: Entropy) -> Result<Self, Error> {
        let webhooks = Arc::new(WebhookClient::new(Arc::clone(&store), entropy.clone()));
        Ok(Self {
            conversions: Conversions::new(Arc::clone(&webhooks), entropy.clone()),
            webhooks,
            authorizer: Authorizer::new(Arc::clone(&store)),
            registry: self.registry.forked(Arc::clone(&store))?,
            notices: self.notices.forked(),
            services: self.services.forked(),
            size: self.size.forked(),
            seen_kinds: self.seen_kinds.forked(),
            logs: OnceLock::new(),
            streams: OnceLock::new(),
            writes: WriteHistory::new(clock.now()),
            quota_writes: NamespaceLocks::default(),
            role_writes: NamespaceLocks::default(),
            quota_counts: NamespaceLocks::default(),
            store,
            clock,
            entropy,
        })
    }

    /// Commits one write to one key and notifies the background tasks. `old` is the entry that it replaces.
    pub(crate) async fn commit(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
    ) -> Result<Committed, Error> {
        self.commit_with(key, old, op, Vec::new()).await
    }

    /// Commits one write to one key together with steps for other keys: all of them or none. If `old` is `None`, the
    /// key must be absent.
    pub(crate) async fn commit_with(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
        others: Vec<CommitStep>,
    ) -> Result<Committed, Error> {
        let steps = others.iter().map(|step| (&step.op, step.old.as_ref()));
        self.check_sizes([(&op, old)].into_iter().chain(steps))?;
        self.seen_kinds.observe(&key);
        for step in &others {
            self.seen_kinds.observe(&step.key);
        }
        let mut txn = Txn::one(key.clone(), expect_unchanged(old), op);
        let mut replaced = vec![(key, old.cloned())];
        for step in others {
            replaced.push((step.key.clone(), step.old));
            txn.steps.push((step.key, step.expect, step.op));
        }
        let commit = AbandonedCommit { replaced: replaced.clone(), outcome: self.store.commit(txn) };
        let committed = PendingCommit { notices: &self.notices, commit: Some(commit) }.await?;
        self.observe_commit(&replaced, &committed);
        Ok(committed)
    }

    /// Refuses a commit with an object that is too large, or for which the store has no room.
    fn check_sizes<'a>(
        &self,
        steps: impl Iterator<Item = (&'a Op, Option<&'a Arc<Entry>>)>,
    ) -> Result<(), Error> {
        let mut growth = 0;
        for (op, old) in steps {
            let Op::Put(value) = op else { continue };
            if value.bytes.len() > OBJECT_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            growth += value.bytes.len().saturating_sub(old.map_or(0, |old| old.bytes.len()));
        }
        if self.size.fits(growth) { Ok(()) } else { Err(Error::Full) }
    }

    /// Waits for a commit whose client disconnected, and does the work that follows a commit.
    pub(crate) async fn finish(&self, commit: AbandonedCommit) {
        let AbandonedCommit { replaced, outcome } = commit;
        if let Ok(committed) = outcome.await {
            self.observe_commit(&replaced, &committed);
        }
    }

    fn observe_commit(&self, replaced: &[ReplacedEntry], committed: &Committed) {
        for (at, ((key, old), new)) in replaced.iter().zip(&committed.entries).enumerate() {
            // Only writes are of interest among the steps after the first.
            if at > 0 && new.is_none() {
                continue;
            }
            self.observe_change(key, old.as_ref(), new.as_ref());
        }
    }

    /// Updates everything outside the store that depends on a change to it.
    pub(crate) fn observe_change(&self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        self.size.record_change(old, new);
        self.update_addresses(key, old, new);
        self.notices.observe(key, old, new, || self.store.snapshot().get(key).cloned());
    }

    /// Frees the addresses that a Service no longer holds, and reserves those that it holds now.
    fn update_addresses(&self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if ResourceIdentity::of_key(key) == SERVICE.storage() {
            let decode = |entry: Option<&Arc<Entry>>| entry.map(|entry| encode::parse_entry(entry));
            self.services.record_commit(decode(old).as_ref(), decode(new).as_ref());
        }
    }

    /// Returns the current time in whole seconds, as timestamps are printed.
    pub(crate) fn now_text(&self) -> String {
        homeostat_api::object::meta::time(self.clock.now())
    }
}

/// A commit that a request waits for. A submitted transaction cannot be withdrawn, so a commit whose future is dropped
/// before its outcome is known (the client disconnected) is left for the background tasks to wait for.
struct PendingCommit<'a> {
    notices: &'a BackgroundQueue,
    /// Taken when the commit is complete.
    commit: Option<AbandonedCommit>,
}

impl Future for PendingCommit<'_> {
    type Output = Result<Committed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let commit = self.commit.as_mut().expect("not polled after its end");
        let outcome = commit.outcome.as_mut().poll(cx);
        if outcome.is_ready() {
            self.commit = None;
        }
        outcome
    }
}

impl Drop for PendingCommit<'_> {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.take() {
            self.notices.abandon(commit);
        }
    }
}

/// Expects the stored entry to be unchanged.
pub(crate) fn expect_unchanged(old: Option<&Arc<Entry>>) -> Expect {
    old.map_or(Expect::Absent, |entry| Expect::At(entry.revision))
}

/// Returns the key of an object.
pub(crate) fn key_of(resource: &Resource, namespace: &str, name: &str) -> Key {
    resource.storage().key(if resource.namespaced { namespace } else { "" }, name)
}

/// Returns the status for a failed commit that was not a conflict.
pub(crate) fn commit_refusal(error: &Error) -> Status {
    match error {
        Error::Busy => Status::too_many_requests("too many writes are waiting, please try again later", 1),
        Error::ReadOnly { .. } | Error::Closed => Status::unavailable(error.to_string()),
        Error::BadKey { .. } => Status::bad_request(error.to_string()),
        Error::TooLarge => Status::unclassified("etcdserver: request is too large"),
        Error::Full => Status::unclassified("etcdserver: mvcc: database space exceeded"),
        other => Status::internal(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use homeostat_store::{Memory, Value};

    use super::*;

    /// Every write in a commit counts, not only its main one.
    #[tokio::test]
    async fn the_sizes_of_all_steps_are_limited() {
        let backend =
            Backend::new(Arc::new(Memory::new()), Clock::system(), Entropy::seeded(1), 3 * OBJECT_BYTES_MAX)
                .unwrap();
        let key = |name: &str| Key::new("", "configmaps", "d", name);
        let object = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
        let put = |bytes: usize| Op::Put(Value::plain(object(bytes)));
        let step = |name: &str, bytes: usize| CommitStep {
            key: key(name),
            expect: Expect::Absent,
            op: put(bytes),
            old: None,
        };
        let check = async |others: Vec<CommitStep>| backend.commit_with(key("a"), None, put(2), others).await;
        assert!(matches!(check(vec![step("b", OBJECT_BYTES_MAX + 1)]).await, Err(Error::TooLarge)));
        let many = ["b", "c", "d"].map(|name| step(name, OBJECT_BYTES_MAX));
        assert!(matches!(check(many.into()).await, Err(Error::Full)));
        check(vec![step("b", OBJECT_BYTES_MAX)]).await.unwrap();
    }
}
