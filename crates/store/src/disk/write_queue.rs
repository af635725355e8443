//! Queues the writes that wait for the disk. It is bounded in number and bytes, so that a flood is rejected as *busy*
//! instead of filling memory.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use homeostat_core::Revision;
use tokio::sync::oneshot;

use crate::{Committed, Error, Op, Txn};

/// The maximum number of waiting requests. At 15 000 commits a second this is a quarter of a second of work; a longer
/// queue would only delay every caller.
const WAITING_MAX: usize = 4096;
/// The maximum number of waiting bytes: ten of the largest objects that the API accepts.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// The maximum number of bytes written in one batch: large enough that the sync dominates, small enough that its buffer
/// does not matter.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum WriteRequest {
    Commit(Txn, oneshot::Sender<Result<Committed, Error>>),
    Compact(Revision, oneshot::Sender<Result<(), Error>>),
}

impl WriteRequest {
    fn bytes(&self) -> usize {
        let Self::Commit(txn, _) = self else { return 0 };
        let step = |(key, _, op): &(homeostat_core::Key, _, Op)| {
            key.as_str().len() + if let Op::Put(value) = op { value.bytes.len() } else { 0 }
        };
        txn.steps.iter().map(step).sum()
    }
}

/// The queue of requests.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    waiting: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: VecDeque<WriteRequest>,
    bytes: usize,
    is_closed: bool,
    /// Whether the writer is asleep. Waking it costs a system call, so it is woken only then.
    is_awaited: bool,
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, request: WriteRequest) -> Result<(), Error> {
        let bytes = request.bytes();
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(Error::Closed);
        }
        let is_full = waiting.requests.len() >= WAITING_MAX || waiting.bytes + bytes > WAITING_BYTES_MAX;
        if is_full && !waiting.requests.is_empty() {
            return Err(Error::Busy);
        }
        waiting.bytes += bytes;
        waiting.requests.push_back(request);
        let must_ring = std::mem::take(&mut waiting.is_awaited);
        drop(waiting);
        if must_ring {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Takes the waiting requests, up to the size of a batch; waits for the first. `None` if the queue is closed and
    /// empty.
    pub(super) fn take(&self) -> Option<Vec<WriteRequest>> {
        let mut waiting = self.lock();
        while waiting.requests.is_empty() {
            if waiting.is_closed {
                return None;
            }
            waiting.is_awaited = true;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES_MAX {
            let Some(request) = waiting.requests.pop_front() else { break };
            bytes += request.bytes();
            batch.push(request);
        }
        waiting.bytes -= bytes;
        Some(batch)
    }

    /// Rejects further requests; accepted ones are still taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Rejects further requests and drops accepted ones: their callers get the error that the store is closed.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.requests.clear();
    }
}
