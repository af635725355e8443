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

use crate::fence::{Admission, Fence, Permit};
use crate::journal::Journal;
use crate::queue::{Config, Depth, Outcome, Queue, Urgency, Work};
use crate::span_links::Origins;

/// Over how long the retries after an outage are spread: all at once would be the next one.
const RETURN_SPREAD: Duration = Duration::from_secs(2);

/// A shared handle on a queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Manned>,
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
    /// The keys that came due while the right to their shard was suspended, by shard.
    suspended: BTreeMap<u32, BTreeSet<Key>>,
}

/// A key to be run, and the right to do so.
pub(crate) struct Admitted {
    pub(crate) work: Work,
    pub(crate) permit: Permit,
}

/// A worker's place. Giving it up is telling the pump that a new worker may be started.
pub(crate) struct Seat {
    inbox: Inbox,
    is_taken: bool,
}

impl Seat {
    /// The next key this process may run; none ends the seat.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Admitted> {
        let next = self.inbox.next(now);
        self.is_taken = next.is_some();
        next
    }

    /// Ends a run, notes it (if it was not noted before), and takes the next key if this worker goes on, all under one
    /// lock: the note of this run stands in the journal before another worker can begin the next run of the same key.
    pub(crate) fn turn(
        &mut self,
        ended: Ended<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<Admitted> {
        let next = self.inbox.turn(ended, goes_on, note);
        self.is_taken = next.is_some() || !goes_on;
        next
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
        let queue = Mutex::new(Manned {
            queue: Queue::new(config, entropy),
            workers: 0,
            cut_off: BTreeSet::new(),
            suspended: BTreeMap::new(),
        });
        Self(Arc::new(Shared {
            queue,
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
    fn next(&self, now: Instant) -> Option<Admitted> {
        self.take(&mut self.lock(), now)
    }

    fn take(&self, manned: &mut Manned, now: Instant) -> Option<Admitted> {
        let next = self.next_of(manned, now);
        if next.is_none() {
            manned.workers -= 1;
        }
        next
    }

    fn next_of(&self, manned: &mut Manned, now: Instant) -> Option<Admitted> {
        loop {
            let work = manned.queue.next(now)?;
            match self.0.fence.enter(&work.key) {
                Admission::Granted(permit) => return Some(Admitted { work, permit }),
                Admission::Suspended => {
                    let Some(shard) = self.0.fence.shard_of(&work.key) else {
                        // No key may run: this one keeps its place.
                        manned.queue.put_back(work, now);
                        return None;
                    };
                    manned.suspended.entry(shard).or_default().insert(work.key.clone());
                    manned.queue.suspend(work);
                }
                // It is forgotten here, and listed again when its shard comes to us.
                Admission::Elsewhere => {
                    self.0.origins.take(&work.key);
                    manned.queue.done(work.ticket, Outcome::Gone, now);
                }
            }
        }
    }

    /// The right to this shard began anew: what came due meanwhile may run.
    pub(crate) fn resume(&self, shard: u32) {
        let mut manned = self.lock();
        let now = Instant::now();
        for key in manned.suspended.remove(&shard).unwrap_or_default() {
            manned.queue.resume(&key, now);
        }
        drop(manned);
        self.0.wake.notify_one();
    }

    /// This shard went to another: what came due meanwhile is no longer ours.
    pub(crate) fn forget(&self, shard: u32) {
        let mut manned = self.lock();
        for key in manned.suspended.remove(&shard).unwrap_or_default() {
            self.0.origins.take(&key);
            manned.queue.forget(&key);
        }
    }

    fn turn(
        &self,
        ended: Ended<'_>,
        goes_on: bool,
        note: impl FnOnce(Option<Duration>) -> Option<Entry>,
    ) -> Option<Admitted> {
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

    #[test]
    fn a_key_added_after_the_last_look_finds_a_free_seat() {
        let journal = Journal::new(Clock::system());
        let fence = Fence::unlimited();
        let inbox = Inbox::new(Config::default(), &Entropy::seeded(1), journal, "test".into(), fence);
        let key = Key::new("", "things", "a", "x");
        inbox.add(&key, Cause::Created, Urgency::Edit);
        let now = Instant::now();
        let mut seat = inbox.seats(1, now).0.pop().expect("one seat");
        let work = seat.next(now).expect("one key").work;
        let ended = Ended { work: &work, outcome: Outcome::AwaitChange, at: now, is_cut_off: false };
        let next = Next::AwaitChange;
        let note = |_| Some(Entry::Settled { object: key.clone(), next, took: Duration::ZERO });
        assert!(seat.turn(ended, true, note).is_none());
        // The worker has not ended yet, but it will not look again.
        inbox.add(&key, Cause::Created, Urgency::Edit);
        assert_eq!(inbox.seats(1, now).0.len(), 1);
    }
}
