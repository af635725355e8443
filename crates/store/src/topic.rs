//! The log of one resource: the recent events of one topic (`group/resource/`), shared by all its watches.
//!
//! Every event has an absolute place that never changes; trimming moves the first place up. A watch is a place and
//! nothing more, so the number of watches costs the writer only their wake-ups.
//!
//! **Invariant:** only the writer appends and trims, and it appends before it makes the revision visible.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use homeostat_core::Revision;
use tokio::sync::Notify;

use crate::Event;

/// The events of one resource.
#[derive(Debug, Default)]
pub(crate) struct Topic {
    log: RwLock<TopicEvents>,
    /// The place after the last event, readable without the lock.
    end: AtomicU64,
    /// Rung after the writer has made new events visible.
    pub(crate) arrived: Notify,
    /// Held by every watch, to be counted. The topic itself is held by every event of the history, too.
    pub(crate) watches: Arc<()>,
}

/// Events in order of revision, and the place of the first of them.
#[derive(Debug, Default)]
pub(crate) struct TopicEvents {
    first: u64,
    events: VecDeque<Arc<Event>>,
}

impl Topic {
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, TopicEvents> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TopicEvents> {
        self.log.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn append(&self, event: Arc<Event>) {
        let mut log = self.write();
        log.events.push_back(event);
        self.end.store(log.first + log.events.len() as u64, Ordering::Release);
    }

    /// Forgets the oldest event. It is dropped after the lock is released: freeing memory is no reason to wait.
    pub(crate) fn trim_one(&self) {
        let mut log = self.write();
        let forgotten = log.events.pop_front();
        log.first += u64::from(forgotten.is_some());
        drop(log);
        drop(forgotten);
    }
}

impl TopicEvents {
    /// The place of the first event after `revision`.
    pub(crate) fn place_after(&self, revision: Revision) -> u64 {
        self.first + self.events.partition_point(|event| event.revision <= revision) as u64
    }

    /// The events from `place` on; `None` when that place was trimmed.
    pub(crate) fn from(&self, place: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let skip = usize::try_from(place.checked_sub(self.first)?).ok()?;
        Some(self.events.range(skip.min(self.events.len())..))
    }

    /// The events after `revision`, newest first: the order in which they are undone.
    pub(crate) fn back_to(&self, revision: Revision) -> Vec<Arc<Event>> {
        self.events.iter().rev().take_while(|event| event.revision > revision).cloned().collect()
    }
}
