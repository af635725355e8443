//! The queue of one controller as the rest of the runtime sees it: triggers go in from watch tasks and streams, work
//! comes out to workers, and the journal notes each step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::journal::{Cause, Entry, Source};
use homeostat_core::{Entropy, Key};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fence::Fence;
use crate::journal::Journal;
use crate::queue::{Config, Depth, Outcome, Queue, Urgency, Work};

/// A shared handle on a queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Manned>,
    /// Runs under way by shard, where there are shards.
    running: Mutex<BTreeMap<u32, i64>>,
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
        entropy: Entropy,
        journal: Journal,
        source: Source,
        fence: Fence,
    ) -> Self {
        let queue = Mutex::new(Manned { queue: Queue::new(config, entropy), workers: 0 });
        Self(Arc::new(Shared {
            queue,
            running: Mutex::default(),
            wake: Notify::new(),
            journal,
            source,
            fence,
        }))
    }

    /// Asks for a reconcile.
    pub(crate) fn add(&self, key: &Key, cause: Cause, urgency: Urgency) {
        self.0.journal.record(&self.0.source, Entry::Queued { object: key.clone(), cause: cause.clone() });
        self.lock().queue.add(key, cause, urgency, Instant::now());
        self.0.wake.notify_one();
    }

    /// The next key this process may run; a worker that gets none has left.
    fn next(&self, now: Instant) -> Option<Work> {
        let mut manned = self.lock();
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

    /// Ends a run; tells in how long the key comes back by itself.
    pub(crate) fn done(&self, work: &Work, outcome: Outcome, now: Instant) -> Option<Duration> {
        self.count(&work.key, -1);
        let (delay, is_earliest) = {
            let queue = &mut self.lock().queue;
            let before = queue.deadline();
            let delay = queue.done(work.ticket, outcome, now);
            (delay, queue.deadline() < before || before.is_none())
        };
        if delay.is_some() && is_earliest {
            self.0.wake.notify_one();
        }
        delay
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

    use super::*;
    use crate::fence::Right;

    #[test]
    fn a_key_added_after_the_last_look_finds_a_free_seat() {
        let journal = Journal::new(Clock::system());
        let fence = Fence::new(Right::Unlimited);
        let inbox = Inbox::new(Config::default(), Entropy::seeded(1), journal, "test".into(), fence);
        let key = Key::new("", "things", "a", "x");
        inbox.add(&key, Cause::Created, Urgency::Edit);
        let now = Instant::now();
        let mut seat = inbox.seats(1, now).0.pop().expect("one seat");
        let work = seat.next(now).expect("one key");
        inbox.done(&work, Outcome::AwaitChange, now);
        assert!(seat.next(now).is_none());
        // The worker has not ended yet, but it will not look again.
        inbox.add(&key, Cause::Created, Urgency::Edit);
        assert_eq!(inbox.seats(1, now).0.len(), 1);
    }
}
