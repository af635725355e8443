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
    queue: Mutex<Queue>,
    /// Runs under way by shard, where there are shards.
    running: Mutex<BTreeMap<u32, i64>>,
    wake: Notify,
    journal: Journal,
    source: Source,
    fence: Fence,
}

impl Inbox {
    pub(crate) fn new(
        config: Config,
        entropy: Entropy,
        journal: Journal,
        source: Source,
        fence: Fence,
    ) -> Self {
        let queue = Mutex::new(Queue::new(config, entropy));
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
        self.lock().add(key, cause, urgency, Instant::now());
        self.0.wake.notify_one();
    }

    /// The next key this process may run.
    pub(crate) fn next(&self, now: Instant) -> Option<Work> {
        let mut queue = self.lock();
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
            let mut queue = self.lock();
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
        self.lock().depth()
    }

    /// How many keys could be started now, and when the next comes due by itself.
    pub(crate) fn outlook(&self, now: Instant) -> (usize, Option<Instant>) {
        let mut queue = self.lock();
        queue.tick(now);
        (queue.depth().ready, queue.deadline())
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

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
