//! A revisioned, watchable key-value store: one global [`Revision`] per commit, consistent snapshots in O(1), ordered
//! gapless watches over a bounded window of history, and writes that are durable before they are acknowledged.
//!
//! Reading order: [`entry`] (stored values), [`txn`] (writes), [`snapshot`] (reads), [`watch`] (following changes),
//! then the implementations [`memory`] and [`disk`], which share everything except durability. One contract suite runs
//! on both (`tests/it`).

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::{Prefix, Revision};

pub mod disk;
pub mod entry;
pub mod error;
pub mod event;
mod history;
pub mod memory;
mod pinned_snapshots;
mod published;
pub mod snapshot;
mod topic;
pub mod txn;
pub mod watch;
mod writer;

pub use disk::Disk;
pub use entry::{Entry, Value};
pub use error::Error;
pub use event::Event;
pub use history::Limits;
pub use memory::Memory;
pub use snapshot::Snapshot;
pub use txn::{Committed, Expect, Op, Txn};
pub use watch::Watch;

/// The store as the API server sees it. Reads never wait for writes.
pub trait Store: Send + Sync + 'static {
    /// Returns the newest visible, and therefore durable, state. O(1).
    fn snapshot(&self) -> Snapshot;

    /// Returns the state as of `revision`: [`Error::Compacted`] if it has left the history window, [`Error::Future`] if
    /// it has not happened yet.
    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error>;

    /// Keeps a snapshot available for [`snapshot_at`](Self::snapshot_at): a list calls this when it returns a token for
    /// its next page. Only the few most recently used snapshots are kept.
    fn pin(&self, snapshot: &Snapshot);

    /// Checks every expectation and, if all hold, applies all operations under one new revision. Resolves when the
    /// commit is durable and visible. The call itself submits the transaction: dropping the future does not undo it.
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Result<Committed, Error>>;

    /// Watches every event under `prefix` after `from`, in order and without gaps. Fails with [`Error::Compacted`] if
    /// `from` has left the history window. A revision in the future is allowed: the watch waits and delivers the events
    /// after it.
    fn watch(&self, prefix: &Prefix, from: Revision) -> Result<Watch, Error>;

    /// Forgets history at and before `revision`; the current state is untouched. This frees memory but does not erase
    /// anything: after a restart, some of that history may be available again.
    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), Error>>;

    /// Returns whether a commit would be accepted now: [`Error::ReadOnly`] after a failed write. For health checks.
    fn check(&self) -> Result<(), Error>;

    /// Stops accepting writes, finishes accepted ones, and releases the files. Idempotent.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// A store shared by everything in the process.
pub type SharedStore = Arc<dyn Store>;
