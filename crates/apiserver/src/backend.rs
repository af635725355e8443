//! The parts that every request works with: the store, the registry, the authorizer, the clock and the source of
//! randomness.
//!
//! **Invariant:** every write of the server passes through [`Backend::commit`], so the background tasks see each one,
//! even if the client disconnects before the answer.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::kinds::core::service::cluster_ip_allocator::ServiceAllocator;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_api::storage::Storage;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_store::{Committed, Entry, Error, Expect, Op, SharedStore, Snapshot, Txn};

use crate::auth::Authorizer;
use crate::background_notices::{AbandonedCommit, Notices, ReplacedEntry};
use crate::logs::LogSource;
use crate::registry::Registry;
use crate::stored::encode;
use crate::write_history::WriteHistory;

/// The largest stored object. The limit in Kubernetes is that of etcd's requests, and clients know it.
const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// The default limit for the total size of all stored objects: that of etcd. All of it is in memory, plus its
/// history.
pub(crate) const STORE_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// The total size of all stored objects, and its limit.
///
/// **Invariant:** the size is the sum of the sizes of all entries; every commit of the server updates it.
pub(crate) struct StoreSize {
    bytes: AtomicI64,
    bytes_max: usize,
}

impl StoreSize {
    /// Creates a counter with this limit.
    pub(crate) fn new(bytes_max: usize) -> Self {
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

    /// Returns whether a value may replace the old one. A value that is no larger is always accepted, and so is every
    /// deletion.
    fn fits(&self, value: &[u8], old: Option<&Arc<Entry>>) -> bool {
        let growth = value.len().saturating_sub(old.map_or(0, |old| old.bytes.len()));
        let held = usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or_default();
        growth == 0 || held.saturating_add(growth) <= self.bytes_max
    }

    fn record_change(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let bytes =
            |entry: Option<&Arc<Entry>>| entry.map_or(0, |entry| entry.bytes.len() as u64).cast_signed();
        self.bytes.fetch_add(bytes(new) - bytes(old), Ordering::Relaxed);
    }
}

/// A step of a commit beside its main one: a condition, or a write that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct CommitStep {
    pub(crate) key: Key,
    pub(crate) expect: Expect,
    pub(crate) op: Op,
    /// The entry that a write replaces.
    pub(crate) old: Option<Arc<Entry>>,
}

impl CommitStep {
    /// Expects something of another key.
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
    pub(crate) notices: Notices,
    /// Allocator of addresses and ports for Services.
    pub(crate) services: ServiceAllocator,
    /// The total size of the stored objects.
    pub(crate) size: StoreSize,
    /// The source of Pod logs, once a node has registered one.
    pub(crate) logs: OnceLock<Arc<dyn LogSource>>,
    /// Who wrote what recently.
    pub(crate) writes: WriteHistory,
}

impl Backend {
    /// Returns the same state over a copy of the store as it is now. Nothing is read again, so it costs microseconds.
    pub(crate) fn forked(&self, store: SharedStore, clock: Clock, entropy: Entropy) -> Result<Self, Error> {
        Ok(Self {
            authorizer: Authorizer::new(Arc::clone(&store)),
            registry: self.registry.forked(Arc::clone(&store))?,
            notices: self.notices.forked(),
            services: self.services.forked(),
            size: self.size.forked(),
            logs: OnceLock::new(),
            writes: WriteHistory::default(),
            store,
            clock,
            entropy,
        })
    }

    /// Commits one write of one key and notifies the background tasks. `old` is the entry that it replaces.
    pub(crate) async fn commit(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
    ) -> Result<Committed, Error> {
        self.commit_with(key, old, op, Vec::new()).await
    }

    /// Commits one write of one key together with steps for other keys: all of them or none. If `old` is `None`, the
    /// key must be absent.
    pub(crate) async fn commit_with(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
        others: Vec<CommitStep>,
    ) -> Result<Committed, Error> {
        if let Op::Put(value) = &op
            && value.bytes.len() > OBJECT_BYTES_MAX
        {
            return Err(Error::TooLarge);
        }
        if let Op::Put(value) = &op
            && !self.size.fits(&value.bytes, old)
        {
            return Err(Error::Full);
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

    /// Waits for a commit whose client disconnected, and does what would have followed it.
    pub(crate) async fn finish(&self, commit: AbandonedCommit) {
        let AbandonedCommit { replaced, outcome } = commit;
        if let Ok(committed) = outcome.await {
            self.observe_commit(&replaced, &committed);
        }
    }

    fn observe_commit(&self, replaced: &[ReplacedEntry], committed: &Committed) {
        for (at, ((key, old), new)) in replaced.iter().zip(&committed.entries).enumerate() {
            // Beside the first step, only those that wrote something are of interest.
            if at > 0 && new.is_none() {
                continue;
            }
            let (old, new) = (old.as_ref(), new.as_ref());
            self.size.record_change(old, new);
            self.update_addresses(key, old, new);
            self.notices.observe(key, old, new, || self.store.snapshot().get(key).cloned());
        }
    }

    /// Frees the addresses that a Service no longer holds, and takes those that it holds now.
    fn update_addresses(&self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if Storage::of_key(key) == SERVICE.storage() {
            let decode = |entry: Option<&Arc<Entry>>| entry.map(|entry| encode::decode(entry));
            self.services.settle(decode(old).as_ref(), decode(new).as_ref());
        }
    }

    /// Returns the current time in whole seconds, as timestamps are printed.
    pub(crate) fn now_text(&self) -> String {
        homeostat_api::object::meta::time(self.clock.now())
    }
}

/// A commit that a request waits for. A submitted transaction cannot be withdrawn, so one whose future is dropped
/// before its outcome is known (the client disconnected) is left for the background tasks to wait for.
struct PendingCommit<'a> {
    notices: &'a Notices,
    /// Taken at the end.
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

/// Returns what a failed commit means to a client, conflicts aside.
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
