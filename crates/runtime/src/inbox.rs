//! The queue of one controller as the rest of the runtime sees it: triggers go in from watch tasks and streams, work
//! comes out to workers, and the journal notes each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::journal::{Cause, Entry, Source};
use homeostat_core::{Entropy, Key};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Span;

use crate::fence::Fence;
use crate::journal::Journal;
use crate::origins::Origins;
use crate::queue::{Config, Depth, Outcome, Queue, Urgency, Work};

/// Over how long the retries after an outage are spread: all at once would be the next one.
const RETURN_SPREAD: Duration = Duration::from_secs(2);

/// A shared handle on a queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Manned>,
    /// Runs under way by shard, where there are shards.
    running: Mutex<BTreeMap<u32, i64>>,
    origins: Origins,
    wake: Notify,
    journal: Journal,
    source: Source,
    fence: Fence,
}

/// The queue and how many workers take from it. They change together: a worker that finds nothing leaves under the
/// same lock, so a key added a moment later finds its seat free.
struct Manned {
    queue: Queue,
    workers: usize,
    /// The keys whose last run failed because the server could not be reached.
    cut_off: BTreeSet<Key>,
}

/// A worker's place. Giving it up is telling the pump that a new worker may be started.
pub(crate) struct Seat {
    inbox: Inbox,
    is_taken: bool,
}

impl Seat {
    /// The next key this process may run; none ends the seat.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Work> {
        let work = self.inbox.next(now);
        self.is_taken = work.is_some();
        work
    }

    /// Ends a run, notes it (if it was not noted before), and takes the next key if this worker goes on, all under one
    /// lock: the note of this run stands in the journal before another worker can begin the next run of the same key.
    pub(crate) fn turn(
        &mut self,
        ended: Ended<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<Work> {
        let work = self.inbox.turn(ended, goes_on, note);
        self.is_taken = work.is_some() || !goes_on;
        work
    }
}

/// A run that is over.
#[derive(Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub(crate) work: &'a Work,
    pub(crate) outcome: Outcome,
    pub(crate) at: Instant,
    /// It failed because the server could not be reached.
    pub(crate) is_cut_off: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.is_taken {
            self.inbox.lock().workers -= 1;
        }
    }
}

impl Inbox {
    pub(crate) fn new(
        config: Config,
        entropy: &Entropy,
        journal: Journal,
        source: Source,
        fence: Fence,
    ) -> Self {
        let queue =
            Mutex::new(Manned { queue: Queue::new(config, entropy), workers: 0, cut_off: BTreeSet::new() });
        Self(Arc::new(Shared {
            queue,
            running: Mutex::default(),
            origins: Origins::default(),
            wake: Notify::new(),
            journal,
            source,
            fence,
        }))
    }

    /// Asks for a reconcile.
    pub(crate) fn add(&self, key: &Key, cause: Cause, urgency: Urgency) {
        self.0.journal.record(&self.0.source, Entry::Queued { object: key.clone(), cause: cause.clone() });
        self.0.origins.add(key, &Span::current());
        self.lock().queue.add(key, cause, urgency, Instant::now());
        self.0.wake.notify_one();
    }

    /// The next key this process may run; a worker that gets none has left.
    fn next(&self, now: Instant) -> Option<Work> {
        self.take(&mut self.lock(), now)
    }

    fn take(&self, manned: &mut Manned, now: Instant) -> Option<Work> {
        let work = self.next_of(&mut manned.queue, now);
        if work.is_none() {
            manned.workers -= 1;
        }
        work
    }

    fn next_of(&self, queue: &mut Queue, now: Instant) -> Option<Work> {
        loop {
            let work = queue.next(now)?;
            if self.0.fence.admits(&work.key) {
                self.count(&work.key, 1);
                return Some(work);
            }
            if !self.0.fence.is_open() {
                // The lease ended between two looks: the key keeps its place for the next term.
                queue.done(work.ticket, Outcome::Requeue(Duration::ZERO), now);
                return None;
            }
            // Another replica's key: it is forgotten here, and listed again when its shard comes to us.
            self.0.origins.take(&work.key);
            queue.done(work.ticket, Outcome::Gone, now);
        }
    }

    /// Does a key of this shard run?
    pub(crate) fn is_running(&self, shard: u32) -> bool {
        self.running().get(&shard).is_some_and(|count| *count > 0)
    }

    fn count(&self, key: &Key, change: i64) {
        if let Some(shard) = self.0.fence.shard_of(key) {
            *self.running().entry(shard).or_default() += change;
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u32, i64>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(
        &self,
        ended: Ended<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<Work> {
        self.count(&ended.work.key, -1);
        let mut manned = self.lock();
        let before = manned.queue.deadline();
        if ended.is_cut_off {
            manned.cut_off.insert(ended.work.key.clone());
        } else {
            manned.cut_off.remove(&ended.work.key);
        }
        let delay = manned.queue.done(ended.work.ticket, ended.outcome, ended.at);
        let is_earliest = delay.is_some()
            && manned.queue.deadline().is_some_and(|now| before.is_none_or(|before| now < before));
        if let Some(entry) = note(delay) {
            self.0.journal.record(&self.0.source, entry);
        }
        let next = if goes_on { self.take(&mut manned, ended.at) } else { None };
        drop(manned);
        if is_earliest {
            self.0.wake.notify_one();
        }
        next
    }

    /// The server is back: what failed for want of it is tried again soon, whatever its backoff.
    pub(crate) fn reconnected(&self, now: Instant) {
        let mut manned = self.lock();
        for key in std::mem::take(&mut manned.cut_off) {
            manned.queue.hasten(&key, RETURN_SPREAD, now);
        }
    }

    pub(crate) fn depth(&self) -> Depth {
        self.lock().queue.depth()
    }

    /// Seats for the workers to be started now, and when the next key comes due by itself.
    pub(crate) fn seats(&self, workers_max: usize, now: Instant) -> (Vec<Seat>, Option<Instant>) {
        let mut manned = self.lock();
        manned.queue.tick(now);
        let count = manned.queue.depth().ready.min(workers_max.saturating_sub(manned.workers));
        manned.workers += count;
        let seats = (0..count).map(|_| Seat { inbox: self.clone(), is_taken: true }).collect();
        (seats, manned.queue.deadline())
    }

    /// Waits until there may be more to do.
    pub(crate) async fn woken(&self) {
        self.0.wake.notified().await;
    }

    /// The spans that asked for runs of keys.
    pub(crate) fn origins(&self) -> &Origins {
        &self.0.origins
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    fn lock(&self) -> MutexGuard<'_, Manned> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Clock;
    use homeostat_core::journal::Next;

    use super::*;
    use crate::fence::Right;

    #[test]
    fn a_key_added_after_the_last_look_finds_a_free_seat() {
        let journal = Journal::new(Clock::system());
        let fence = Fence::new(Right::Unlimited);
        let inbox = Inbox::new(Config::default(), &Entropy::seeded(1), journal, "test".into(), fence);
        let key = Key::new("", "things", "a", "x");
        inbox.add(&key, Cause::Created, Urgency::Edit);
        let now = Instant::now();
        let mut seat = inbox.seats(1, now).0.pop().expect("one seat");
        let work = seat.next(now).expect("one key");
        let ended = Ended { work: &work, outcome: Outcome::AwaitChange, at: now, is_cut_off: false };
        let next = Next::AwaitChange;
        let note = |_| Some(Entry::Settled { object: key.clone(), next, took: Duration::ZERO });
        assert!(seat.turn(ended, true, note).is_none());
        // The worker has not ended yet, but it will not look again.
        inbox.add(&key, Cause::Created, Urgency::Edit);
        assert_eq!(inbox.seats(1, now).0.len(), 1);
    }
}
