//! The thread that writes the log: it takes waiting requests, checks them, appends and syncs them as one batch,
//! publishes the batch and responds. The sync itself is [`WriteAheadLog::append`]. A second thread writes checkpoints.
//!
//! **Invariant:** the first failed write or sync stops all writing for good ([`WriterStatus::fail`]); the callers of
//! its batch get an error and never becomes visible. A failed checkpoint only costs space and is retried later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use homeostat_core::Revision;
use tokio::sync::watch;

use super::acknowledged_revision::AcknowledgedRevision;
use super::checkpoint;
use super::files::Files;
use super::format::FileFormat;
use super::recover::RecoveredStore;
use super::write_ahead_log::WriteAheadLog;
use super::write_queue::{WriteQueue, WriteRequest};
use crate::published::PublishedState;
use crate::writer::Writer;
use crate::{Committed, Error, Txn};

/// The state of the writer, shared with other threads.
#[derive(Debug)]
pub(super) struct WriterStatus {
    failure: OnceLock<String>,
    stopped: watch::Sender<bool>,
}

impl Default for WriterStatus {
    fn default() -> Self {
        Self { failure: OnceLock::new(), stopped: watch::Sender::new(false) }
    }
}

impl WriterStatus {
    /// Returns an error if the store cannot be written to.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.failure.get().map_or(Ok(()), |reason| Err(Error::ReadOnly { reason: reason.clone() }))
    }

    fn fail(&self, what: &str, error: &io::Error) {
        let reason = format!("{what} failed ({error}); make room or replace the disk, then restart");
        tracing::error!(%reason, "the store is read-only from now on");
        // Only the first reason matters; later ones follow from it.
        let _ = self.failure.set(reason);
    }

    /// Waits until the writer has finished.
    pub(super) async fn stopped(&self) {
        // This fails only if the sender is gone, and `self` owns the sender.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Everything the writing thread owns.
#[derive(Debug)]
pub(super) struct CommitThread {
    files: Arc<dyn Files>,
    writer: Writer,
    published: Arc<PublishedState>,
    log: WriteAheadLog,
    acknowledged: AcknowledgedRevision,
    checkpoint: Checkpointing,
}

/// When the next checkpoint is due, and the one being written.
#[derive(Debug)]
struct Checkpointing {
    /// The format to write it in.
    format: FileFormat,
    /// How much obsolete log makes a checkpoint worthwhile.
    bytes_min: u64,
    /// The size of the last checkpoint.
    bytes_last: u64,
    /// How much log was obsolete when an attempt failed; the next attempt waits for the same amount again.
    bytes_failed: u64,
    running: Option<RunningCheckpoint>,
}

#[derive(Debug)]
struct RunningCheckpoint {
    revision: Revision,
    needless_bytes: u64,
    thread: JoinHandle<io::Result<Option<u64>>>,
    must_stop: Arc<AtomicBool>,
}

type Answer = tokio::sync::oneshot::Sender<Result<Committed, Error>>;

impl CommitThread {
    pub(super) fn new(
        files: Arc<dyn Files>,
        writer: Writer,
        published: Arc<PublishedState>,
        recovered: RecoveredStore,
        checkpoint_bytes: u64,
    ) -> Self {
        let checkpoint = Checkpointing {
            format: recovered.format,
            bytes_min: checkpoint_bytes,
            bytes_last: recovered.checkpoint_bytes,
            bytes_failed: 0,
            running: None,
        };
        let RecoveredStore { log, acknowledged, .. } = recovered;
        Self { files, writer, published, log, acknowledged, checkpoint }
    }

    /// Starts the thread. It exits when the queue is closed and empty.
    pub(super) fn start(
        mut self,
        queue: Arc<WriteQueue>,
        status: Arc<WriterStatus>,
    ) -> Result<JoinHandle<()>, Error> {
        let path = self.files.place();
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || {
            let end = ThreadEnd { queue, status, published: Arc::clone(&self.published) };
            while let Some(requests) = end.queue.take() {
                self.serve(requests, &end.status);
            }
            self.stop(&end.status);
            // The folder's lock is released with the files, before waiters are notified that the thread has ended.
            drop(self);
        });
        thread.map_err(|error| Error::Open { path, reason: format!("cannot start a thread: {error}") })
    }

    fn serve(&mut self, requests: Vec<WriteRequest>, status: &WriterStatus) {
        let mut txns = Vec::with_capacity(requests.len());
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            match request {
                WriteRequest::Commit(txn, answer) => {
                    txns.push(txn);
                    answers.push(answer);
                }
                WriteRequest::Compact(revision, answer) => {
                    self.commit(mem::take(&mut txns), mem::take(&mut answers), status);
                    // The caller may be gone, but the compaction still takes effect.
                    let _ = answer.send(self.writer.compact(revision));
                }
            }
        }
        self.commit(txns, answers, status);
        self.tend(status);
    }

    /// Commits a batch: syncs all of it, then publishes it and responds to its callers.
    fn commit(&mut self, txns: Vec<Txn>, answers: Vec<Answer>, status: &WriterStatus) {
        if txns.is_empty() {
            return;
        }
        let result = status.check().and_then(|()| {
            let batch = self.writer.prepare(txns);
            if let Err(error) = self.log.append(&batch) {
                status.fail("writing the log", &error);
            }
            status.check().map(|()| self.writer.publish(batch))
        });
        let Ok((results, wake)) = result else {
            for answer in answers {
                // A caller that is gone does not need the response.
                let _ = answer.send(status.check().and(Err(Error::Closed)));
            }
            return;
        };
        self.acknowledged.note(self.published.visible());
        for (answer, result) in answers.into_iter().zip(results) {
            // A caller that is gone does not undo its commit.
            let _ = answer.send(result);
        }
        wake.ring();
    }

    /// Maintains the log: starts the next file or a checkpoint when one is due.
    fn tend(&mut self, status: &WriterStatus) {
        if status.check().is_err() {
            return;
        }
        if let Err(error) = self.log.rotate(self.published.visible()) {
            status.fail("beginning a log file", &error);
            return;
        }
        self.finish_checkpoint();
        self.start_checkpoint();
    }

    fn start_checkpoint(&mut self) {
        let floor = self.published.floor();
        let (needless, needless_bytes) = self.log.needless(floor);
        let Checkpointing { format, bytes_min, bytes_last, bytes_failed, running } = &mut self.checkpoint;
        let format = *format;
        let due = (*bytes_min).max(*bytes_last) + *bytes_failed;
        if running.is_some() || needless.is_empty() || needless_bytes < due {
            return;
        }
        // The events are collected here, because nothing is trimmed while this runs; under load the floor moves with
        // every batch.
        let undo = self.published.undo(self.published.snapshot(), floor).expect("the floor itself is kept");
        let files = Arc::clone(&self.files);
        let must_stop = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&must_stop);
        let write = move || checkpoint::write(&*files, &undo.apply(), &needless, format, &stop);
        match thread::Builder::new().name("store-checkpoint".to_owned()).spawn(write) {
            Ok(thread) => {
                *running = Some(RunningCheckpoint { revision: floor, needless_bytes, thread, must_stop });
            }
            Err(error) => tracing::warn!(%error, "cannot start a thread for a checkpoint"),
        }
    }

    /// Records a completed checkpoint.
    fn finish_checkpoint(&mut self) {
        let Some(done) = self.checkpoint.running.take_if(|running| running.thread.is_finished()) else {
            return;
        };
        match done.thread.join() {
            Ok(Ok(Some(bytes))) => {
                self.log.drop_needless(done.revision);
                self.checkpoint.bytes_last = bytes;
                self.checkpoint.bytes_failed = 0;
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a checkpoint failed; the log grows until the next one succeeds");
                self.checkpoint.bytes_failed = done.needless_bytes;
            }
            Err(_) => tracing::error!("the checkpoint thread panicked"),
        }
    }

    fn stop(&mut self, status: &WriterStatus) {
        if let Some(running) = self.checkpoint.running.take() {
            running.must_stop.store(true, Ordering::Relaxed);
            if running.thread.join().is_err() {
                tracing::error!("the checkpoint thread panicked");
            }
        }
        if status.check().is_ok()
            && let Err(error) = self.acknowledged.close()
        {
            tracing::warn!(%error, "cannot durably record how far the log reaches");
        }
    }
}

/// Notifies all waiters that the thread has ended, even if it panicked, so that no caller waits for a response forever.
struct ThreadEnd {
    queue: Arc<WriteQueue>,
    status: Arc<WriterStatus>,
    published: Arc<PublishedState>,
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        self.queue.abandon();
        self.published.close();
        self.status.stopped.send_replace(true);
    }
}
