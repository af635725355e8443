//! The durable store keeps everything in memory, and a log makes it durable.
//!
//! Reading order: [`files`] (all access to the disk), `frame` (checksums, and whether a frame is torn or damaged),
//! `payload` (the contents), `format` (their version), `write_ahead_log` (appends and syncs), `acknowledged_revision`
//! (how far the log must reach), `checkpoint`, `recover`, `migrate` (from an older version), [`backup_file`]
//! (everything in one file), `write_queue` (waiting requests), `commit_thread` (commits batches). `docs/why/store.md`
//! compares it with other engines.
//!
//! **Invariant:** a commit is synced to disk before any reader or watcher sees it. If a write or a sync fails, the
//! store becomes read-only for the rest of the process: the state of the data is then unknown, and a later success
//! would not prove anything.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use homeostat_core::{Clock, Prefix, Revision};
use tokio::sync::oneshot;

use crate::history::Limits;
use crate::published::PublishedState;
use crate::writer::Writer;
use crate::{Committed, Error, Snapshot, Store, Txn, Watch};

mod acknowledged_revision;
pub mod backup_file;
mod checkpoint;
mod commit_thread;
pub mod files;
mod format;
mod frame;
mod migrate;
mod payload;
mod recover;
mod write_ahead_log;
mod write_queue;

use commit_thread::{CommitThread, WriterStatus};
use files::{Files, Folder};
pub use format::{ContentFormat, KeyMigration, Migration};
use write_queue::{WriteQueue, WriteRequest};

/// The settings of a disk store. The default suits a control plane on one machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The clock that determines the age of history.
    pub clock: Clock,
    /// How much history is kept, also across restarts.
    pub history: Limits,
    /// The size at which the next log file is started.
    pub segment_bytes: u64,
    /// The version of the contents. Folders with older contents are migrated when opened; folders with newer contents
    /// are rejected.
    pub contents: ContentFormat,
    /// The amount of obsolete log that makes a checkpoint worth writing. A checkpoint is written once the obsolete log
    /// reaches both this size and the size of the last checkpoint, so that checkpoints at most double the amount of
    /// data written.
    pub checkpoint_bytes: u64,
}

impl Default for Config {
    /// 8 MiB of log take about 20 ms to replay, and startup holds the last file in memory; 16 MiB of obsolete log is
    /// less than a small store's history.
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            history: Limits::default(),
            segment_bytes: 8 << 20,
            contents: ContentFormat::default(),
            checkpoint_bytes: 16 << 20,
        }
    }
}

/// A durable store in a folder.
#[derive(Debug)]
pub struct Disk {
    published: Arc<PublishedState>,
    queue: Arc<WriteQueue>,
    status: Arc<WriterStatus>,
    commit_thread: Mutex<Option<JoinHandle<()>>>,
}

impl Disk {
    /// Opens the store in a folder, creating the folder if necessary. Blocks until everything is in memory.
    pub fn open(path: impl AsRef<Path>, config: &Config) -> Result<Self, Error> {
        Self::open_on(Arc::new(Folder::open(path.as_ref())?), config)
    }

    /// Opens the store on a custom implementation of [`Files`], for tests that simulate disk failures.
    pub fn open_on(files: Arc<dyn Files>, config: &Config) -> Result<Self, Error> {
        let published = Arc::new(PublishedState::default());
        let mut writer = Writer::new(Arc::clone(&published), config.clock, config.history);
        let recovered = recover::recover(&files, &mut writer, config)?;
        let (queue, status) = (Arc::<WriteQueue>::default(), Arc::<WriterStatus>::default());
        let commit_thread =
            CommitThread::new(files, writer, Arc::clone(&published), recovered, config.checkpoint_bytes);
        let thread = commit_thread.start(Arc::clone(&queue), Arc::clone(&status))?;
        Ok(Self { published, queue, status, commit_thread: Mutex::new(Some(thread)) })
    }

    /// Sends a request to the writer and waits for the response.
    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> WriteRequest,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (answer, answered) = oneshot::channel();
        match self.status.check().and_then(|()| self.queue.push(request(answer))) {
            Ok(()) => answered.map(|answer| answer.unwrap_or(Err(Error::Closed))).boxed(),
            Err(error) => ready(Err(error)).boxed(),
        }
    }
}

impl Store for Disk {
    fn snapshot(&self) -> Snapshot {
        self.published.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        self.published.snapshot_at(revision)
    }

    fn pin(&self, snapshot: &Snapshot) {
        self.published.pins().put(snapshot.clone());
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'static, Result<Committed, Error>> {
        self.ask(|answer| WriteRequest::Commit(txn, answer))
    }

    fn watch(&self, prefix: &Prefix, from: Revision) -> Result<Watch, Error> {
        Watch::new(Arc::clone(&self.published), prefix, from)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.ask(|answer| WriteRequest::Compact(revision, answer))
    }

    fn check(&self) -> Result<(), Error> {
        self.status.check()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.queue.close();
        let status = Arc::clone(&self.status);
        async move { status.stopped().await }.boxed()
    }
}

impl Drop for Disk {
    /// Finishes the accepted requests, so that the folder is free when this returns.
    fn drop(&mut self) {
        self.queue.close();
        let thread = self.commit_thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's writer thread panicked");
        }
    }
}
