//! The queue of one controller as the rest of the runtime sees it: triggers go in from watch tasks and streams, work
//! comes out to workers, and each step is recorded in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::journal::{Cause, Entry, Source};
use homeostat_core::{Entropy, Key};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Span;

use super::span_links::SpanLinks;
use crate::fence::{Fence, FenceAnswer, Permit};
use crate::journal::Journal;
use crate::queue::{Config, DispatchedKey, Outcome, Queue, QueueCounts, Urgency};

/// The time over which retries after an outage are spread: retrying all at once would cause the next outage.
const RETURN_SPREAD: Duration = Duration::from_secs(2);

/// A shared handle to a queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ControllerQueue(Arc<QueueShared>);

struct QueueShared {
    queue: Mutex<QueueState>,
    span_links: SpanLinks,
    wake: Notify,
    journal: Journal,
    source: Source,
    fence: Fence,
}

/// The queue, and how many workers take keys from it. They change together: a worker that finds no key leaves under the
/// same lock, so a key added a moment later finds its slot free.
struct QueueState {
    queue: Queue,
    workers: usize,
    /// The keys whose last run failed because the server could not be reached.
    cut_off: BTreeSet<Key>,
    /// The keys that became due while their shard was suspended, by shard.
    suspended: BTreeMap<u32, BTreeSet<Key>>,
}

/// A key to run, and the permit to do so.
pub(crate) struct PermittedWork {
    pub(crate) work: DispatchedKey,
    pub(crate) permit: Permit,
}

/// A worker's slot. Dropping it allows the pool to start a new worker.
pub(crate) struct WorkerSlot {
    queue: ControllerQueue,
    is_taken: bool,
}

impl WorkerSlot {
    /// Returns the next key that this process may run; `None` closes the slot.
    pub(crate) fn next(&mut self, now: Instant) -> Option<PermittedWork> {
        let next = self.queue.next(now);
        self.is_taken = next.is_some();
        next
    }

    /// Finishes a run, records it (if it was not recorded before), and takes the next key if this worker continues, all
    /// under one lock: this run is in the journal before another worker can begin the next run of the same key.
    pub(crate) fn finish_and_take_next(
        &mut self,
        ended: FinishedRun<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<PermittedWork> {
        let next = self.queue.finish_and_take_next(ended, goes_on, note);
        self.is_taken = next.is_some() || !goes_on;
        next
    }
}

/// A finished run.
#[derive(Clone, Copy)]
pub(crate) struct FinishedRun<'a> {
    pub(crate) work: &'a DispatchedKey,
    pub(crate) outcome: Outcome,
    pub(crate) at: Instant,
    /// Whether it failed because the server could not be reached.
    pub(crate) is_cut_off: bool,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        if self.is_taken {
            self.queue.lock().workers -= 1;
        }
    }
}

impl ControllerQueue {
    pub(crate) fn new(
        config: Config,
        entropy: &Entropy,
        journal: Journal,
        source: Source,
        fence: Fence,
    ) -> Self {
        let queue = Mutex::new(QueueState {
            queue: Queue::new(config, entropy),
            workers: 0,
            cut_off: BTreeSet::new(),
            suspended: BTreeMap::new(),
        });
        Self(Arc::new(QueueShared {
            queue,
            span_links: SpanLinks::default(),
            wake: Notify::new(),
            journal,
            source,
            fence,
        }))
    }

    /// Requests a reconcile.
    pub(crate) fn add(&self, key: &Key, cause: Cause, urgency: Urgency) {
        self.0.journal.record(&self.0.source, Entry::Queued { object: key.clone(), cause: cause.clone() });
        self.0.span_links.add(key, &Span::current());
        self.lock().queue.add(key, cause, urgency, Instant::now());
        self.0.wake.notify_one();
    }

    /// Returns the next key that this process may run; a worker that gets no key has left.
    fn next(&self, now: Instant) -> Option<PermittedWork> {
        self.take(&mut self.lock(), now)
    }

    fn take(&self, locked: &mut QueueState, now: Instant) -> Option<PermittedWork> {
        let next = self.next_of(locked, now);
        if next.is_none() {
            locked.workers -= 1;
        }
        next
    }

    fn next_of(&self, locked: &mut QueueState, now: Instant) -> Option<PermittedWork> {
        loop {
            let work = locked.queue.next(now)?;
            match self.0.fence.enter(&work.key) {
                FenceAnswer::Granted(permit) => return Some(PermittedWork { work, permit }),
                FenceAnswer::Suspended => {
                    let Some(shard) = self.0.fence.shard_of(&work.key) else {
                        // No key may run now: this one keeps its place.
                        locked.queue.put_back(work, now);
                        return None;
                    };
                    locked.suspended.entry(shard).or_default().insert(work.key.clone());
                    locked.queue.suspend(work);
                }
                // It is forgotten here, and queued again if this replica gains its shard.
                FenceAnswer::Elsewhere => {
                    self.0.span_links.take(&work.key);
                    locked.queue.done(work.ticket, Outcome::Gone, now);
                }
            }
        }
    }

    /// Queues the keys that became due in this shard while it was suspended.
    pub(crate) fn resume(&self, shard: u32) {
        let mut locked = self.lock();
        let now = Instant::now();
        for key in locked.suspended.remove(&shard).unwrap_or_default() {
            locked.queue.resume(&key, now);
        }
        drop(locked);
        self.0.wake.notify_one();
    }

    /// Forgets the keys that became due in this shard while it was suspended, because it has moved to another replica.
    pub(crate) fn forget(&self, shard: u32) {
        let mut locked = self.lock();
        for key in locked.suspended.remove(&shard).unwrap_or_default() {
            self.0.span_links.take(&key);
            locked.queue.forget(&key);
        }
    }

    fn finish_and_take_next(
        &self,
        ended: FinishedRun<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<PermittedWork> {
        let mut locked = self.lock();
        let before = locked.queue.deadline();
        if ended.is_cut_off {
            locked.cut_off.insert(ended.work.key.clone());
        } else {
            locked.cut_off.remove(&ended.work.key);
        }
        let delay = locked.queue.done(ended.work.ticket, ended.outcome, ended.at);
        let is_earliest = delay.is_some()
            && locked.queue.deadline().is_some_and(|now| before.is_none_or(|before| now < before));
        if let Some(entry) = note(delay) {
            self.0.journal.record(&self.0.source, entry);
        }
        let next = if goes_on { self.take(&mut locked, ended.at) } else { None };
        drop(locked);
        if is_earliest {
            self.0.wake.notify_one();
        }
        next
    }

    /// Retries the keys that failed because the server was unreachable, soon and regardless of their backoff.
    pub(crate) fn reconnected(&self, now: Instant) {
        let mut locked = self.lock();
        for key in std::mem::take(&mut locked.cut_off) {
            locked.queue.hasten(&key, RETURN_SPREAD, now);
        }
    }

    pub(crate) fn depth(&self) -> QueueCounts {
        self.lock().queue.depth()
    }

    /// Returns slots for the workers to start now, and when the next key is due.
    pub(crate) fn free_slots(&self, workers_max: usize, now: Instant) -> (Vec<WorkerSlot>, Option<Instant>) {
        let mut locked = self.lock();
        locked.queue.tick(now);
        let count = locked.queue.depth().ready.min(workers_max.saturating_sub(locked.workers));
        locked.workers += count;
        let slots = (0..count).map(|_| WorkerSlot { queue: self.clone(), is_taken: true }).collect();
        (slots, locked.queue.deadline())
    }

    /// Waits until there may be more to do.
    pub(crate) async fn wait_until_woken(&self) {
        self.0.wake.notified().await;
    }

    /// Returns the spans that requested runs of keys.
    pub(crate) fn span_links(&self) -> &SpanLinks {
        &self.0.span_links
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Clock;
    use homeostat_core::journal::RequestedNext;

    use super::*;

    #[test]
    fn a_key_added_after_the_last_look_finds_a_free_slot() {
        let journal = Journal::new(Clock::system());
        let fence = Fence::unlimited();
        let queue =
            ControllerQueue::new(Config::default(), &Entropy::seeded(1), journal, "test".into(), fence);
        let key = Key::new("", "things", "a", "x");
        queue.add(&key, Cause::Created, Urgency::Edit);
        let now = Instant::now();
        let mut slot = queue.free_slots(1, now).0.pop().expect("one slot");
        let work = slot.next(now).expect("one key").work;
        let ended = FinishedRun { work: &work, outcome: Outcome::AwaitChange, at: now, is_cut_off: false };
        let next = RequestedNext::AwaitChange;
        let note = |_| Some(Entry::Settled { object: key.clone(), next, took: Duration::ZERO });
        assert!(slot.finish_and_take_next(ended, true, note).is_none());
        // The worker has not ended yet, but it will not check again.
        queue.add(&key, Cause::Created, Urgency::Edit);
        assert_eq!(queue.free_slots(1, now).0.len(), 1);
    }
}
