//! Keeps the recent events of one topic (`group/resource/`), shared by all its watches.
//!
//! Every event has an absolute position that never changes; trimming advances the first position. A watch is just a
//! position, so additional watches cost the writer only their wake-ups.
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
    /// The position after the last event, readable without the lock.
    end: AtomicU64,
    /// Notified after the writer has made new events visible.
    pub(crate) arrived: Notify,
    /// Every watch holds a reference, so that watches can be counted; references to the topic also include the one held
    /// by the history.
    pub(crate) watches: Arc<()>,
}

/// Events in order of revision, and the position of the first one.
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

    /// Forgets the oldest event. It is dropped after the lock is released, so that readers need not wait for it to be
    /// freed.
    pub(crate) fn trim_one(&self) {
        let mut log = self.write();
        let forgotten = log.events.pop_front();
        log.first += u64::from(forgotten.is_some());
        drop(log);
        drop(forgotten);
    }
}

impl TopicEvents {
    /// Returns the position of the first event after `revision`.
    pub(crate) fn place_after(&self, revision: Revision) -> u64 {
        self.first + self.events.partition_point(|event| event.revision <= revision) as u64
    }

    /// Returns the events from `place` on; `None` if that position was trimmed.
    pub(crate) fn from(&self, place: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let skip = usize::try_from(place.checked_sub(self.first)?).ok()?;
        Some(self.events.range(skip.min(self.events.len())..))
    }

    /// Returns the events after `revision`, newest first, the order in which they are undone.
    pub(crate) fn back_to(&self, revision: Revision) -> Vec<Arc<Event>> {
        self.events.iter().rev().take_while(|event| event.revision > revision).cloned().collect()
    }
}
