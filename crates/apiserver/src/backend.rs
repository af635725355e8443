//! What every request works with: the store, the registry, who may do what, time and chance.
//!
//! **Invariant:** every write of the server passes through [`Backend::commit`], so the keeper sees each one, also when
//! the client that asked for it is gone before it is answered.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use homeostat_core::{Clock, Entropy, Key};
use homeostat_store::{Committed, Entry, Error, Expect, Op, SharedStore, Snapshot, Txn};

use crate::auth::Authorizer;
use crate::keeper::{Abandoned, Notices};
use crate::kinds::core::service::SERVICE;
use crate::kinds::core::service::allocator::Allocator;
use crate::logs::LogSource;
use crate::object::encode;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::Status;
use crate::storage::Storage;

/// The largest object stored. Kubernetes' own limit is that of etcd's requests, and clients know it.
const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// What all stored objects may take together: etcd's default. All of it is in memory, and its history besides.
pub(crate) const STORE_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// How much all stored objects take together.
///
/// **Invariant:** it is the sum of the sizes of all entries; every commit of the server changes it.
pub(crate) struct Space {
    bytes: AtomicI64,
    bytes_max: usize,
}

impl Space {
    /// So many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicI64::new(0), bytes_max }
    }

    /// Learns what is in the store.
    pub(crate) fn observe(&self, snapshot: &Snapshot) {
        let bytes = snapshot.iter().map(|entry| entry.bytes.len() as u64).sum::<u64>();
        self.bytes.store(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Is there room for a value in place of the old one? What grows nothing is always taken, and so is every deletion.
    fn fits(&self, value: &[u8], old: Option<&Arc<Entry>>) -> bool {
        let growth = value.len().saturating_sub(old.map_or(0, |old| old.bytes.len()));
        let held = usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or_default();
        growth == 0 || held.saturating_add(growth) <= self.bytes_max
    }

    fn settle(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let bytes =
            |entry: Option<&Arc<Entry>>| entry.map_or(0, |entry| entry.bytes.len() as u64).cast_signed();
        self.bytes.fetch_add(bytes(new) - bytes(old), Ordering::Relaxed);
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
    /// Addresses and ports of Services.
    pub(crate) services: Allocator,
    /// How much is stored, and may be.
    pub(crate) space: Space,
    /// Whoever runs Pods, once somebody does.
    pub(crate) logs: OnceLock<Arc<dyn LogSource>>,
}

impl Backend {
    /// Commits one write of one key and tells the keeper. `old` is what stood there.
    pub(crate) async fn commit(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
    ) -> Result<Committed, Error> {
        self.commit_with(key, old, op, None, expected(old)).await
    }

    /// Creates one key, if `condition` on another still holds at that moment.
    pub(crate) async fn create(
        &self,
        key: Key,
        op: Op,
        condition: Option<(Key, Expect)>,
    ) -> Result<Committed, Error> {
        self.commit_with(key, None, op, condition, Expect::Absent).await
    }

    async fn commit_with(
        &self,
        key: Key,
        old: Option<&Arc<Entry>>,
        op: Op,
        condition: Option<(Key, Expect)>,
        expect: Expect,
    ) -> Result<Committed, Error> {
        if let Op::Put(value) = &op
            && value.bytes.len() > OBJECT_BYTES_MAX
        {
            return Err(Error::TooLarge);
        }
        if let Op::Put(value) = &op
            && !self.space.fits(&value.bytes, old)
        {
            return Err(Error::Full);
        }
        let mut txn = Txn::one(key.clone(), expect, op);
        if let Some((key, expect)) = condition {
            txn.steps.push((key, expect, Op::Check));
        }
        let commit = Abandoned { key: key.clone(), old: old.cloned(), outcome: self.store.commit(txn) };
        let committed = UnderWay { notices: &self.notices, commit: Some(commit) }.await?;
        self.settle(&key, old, &committed);
        Ok(committed)
    }

    /// Waits for a commit whose client left, and does what would have followed it.
    pub(crate) async fn finish(&self, commit: Abandoned) {
        let Abandoned { key, old, outcome } = commit;
        if let Ok(committed) = outcome.await {
            self.settle(&key, old.as_ref(), &committed);
        }
    }

    fn settle(&self, key: &Key, old: Option<&Arc<Entry>>, committed: &Committed) {
        let new = committed.entries.first().and_then(Option::as_ref);
        self.space.settle(old, new);
        self.settle_addresses(key, old, new);
        self.notices.observe(key, old, new, || self.store.snapshot().get(key).cloned());
    }

    /// What a Service no longer holds is free again; what it holds now is taken.
    fn settle_addresses(&self, key: &Key, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if Storage::of_key(key) == SERVICE.storage() {
            let decode = |entry: Option<&Arc<Entry>>| entry.map(|entry| encode::decode(entry));
            self.services.settle(decode(old).as_ref(), decode(new).as_ref());
        }
    }

    /// Whole seconds, as timestamps are printed.
    pub(crate) fn now_text(&self) -> String {
        crate::object::meta::time(self.clock.now())
    }
}

/// A commit that somebody waits for. A submitted transaction cannot be taken back, so one whose future is dropped
/// before its outcome is known (the client went away) becomes the keeper's to wait for.
struct UnderWay<'a> {
    notices: &'a Notices,
    /// Taken at the end.
    commit: Option<Abandoned>,
}

impl Future for UnderWay<'_> {
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

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.take() {
            self.notices.abandon(commit);
        }
    }
}

/// That what stood there still does.
pub(crate) fn expected(old: Option<&Arc<Entry>>) -> Expect {
    old.map_or(Expect::Absent, |entry| Expect::At(entry.revision))
}

/// The key of an object.
pub(crate) fn key_of(resource: &Resource, namespace: &str, name: &str) -> Key {
    resource.storage().key(if resource.namespaced { namespace } else { "" }, name)
}

/// What a failed commit means to a client, conflicts aside.
pub(crate) fn refusal(error: &Error) -> Status {
    match error {
        Error::Busy => Status::too_many_requests("too many writes are waiting, please try again later", 1),
        Error::ReadOnly { .. } | Error::Closed => Status::unavailable(error.to_string()),
        Error::BadKey { .. } => Status::bad_request(error.to_string()),
        Error::TooLarge => Status::unclassified("etcdserver: request is too large"),
        Error::Full => Status::unclassified("etcdserver: mvcc: database space exceeded"),
        other => Status::internal(&other.to_string()),
    }
}
