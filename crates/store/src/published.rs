//! What everybody may see: the newest snapshot, the logs of the resources, and how far history reaches back.
//!
//! Readers and watchers touch only this; the writer hands over a whole batch at a time, durable by then.
//!
//! **Invariant:** the order of publication is logs, snapshot, visible revision, wake-ups. So whoever learns a
//! revision finds its state, and whoever reads the visible revision finds every event up to it in the logs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::ArcSwap;
use homeostat_core::Revision;

use crate::pins::Pins;
use crate::topic::Topic;
use crate::{Error, Snapshot};

/// The state shared between the writer and everybody else.
#[derive(Debug, Default)]
pub(crate) struct Published {
    current: ArcSwap<Snapshot>,
    visible: AtomicU64,
    /// The last revision forgotten: history is whole after it.
    floor: AtomicU64,
    topics: RwLock<BTreeMap<Box<str>, Arc<Topic>>>,
    pins: Mutex<Pins>,
    is_closed: AtomicBool,
}

impl Published {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::clone(&self.current.load())
    }

    pub(crate) fn visible(&self) -> Revision {
        Revision::new(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn floor(&self) -> Revision {
        Revision::new(self.floor.load(Ordering::Acquire))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Is history after `revision` whole?
    pub(crate) fn check_kept(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.floor() { Err(self.compacted(revision)) } else { Ok(()) }
    }

    pub(crate) fn compacted(&self, asked: Revision) -> Error {
        Error::Compacted { asked, oldest: self.floor() }
    }

    /// The log of a resource, begun when first asked for.
    pub(crate) fn topic(&self, name: &str) -> Arc<Topic> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = topics.get(name) {
            return Arc::clone(topic);
        }
        drop(topics);
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(topics.entry(name.into()).or_default())
    }

    fn all_topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Makes a batch visible whose events are in the logs already.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let revision = snapshot.revision();
        self.current.store(Arc::new(snapshot));
        self.visible.store(revision.get(), Ordering::Release);
    }

    /// Declares history up to `floor` forgotten. Called before the events are trimmed, so that a watch which passed
    /// its check under the log's lock finds its events.
    pub(crate) fn forget(&self, floor: Revision) {
        self.floor.store(floor.get(), Ordering::Release);
    }

    /// Ends all watches once they have delivered everything.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for topic in self.all_topics() {
            topic.arrived.notify_waiters();
        }
    }

    pub(crate) fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as of `revision`: the present, a pinned snapshot, or the present with newer events undone.
    pub(crate) fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        let current = self.snapshot();
        if revision == current.revision() {
            return Ok(current);
        }
        if revision > current.revision() {
            return Err(Error::Future { asked: revision, current: current.revision() });
        }
        if let Some(pinned) = self.pins().get(revision) {
            return Ok(pinned);
        }
        let past = self.roll_back(&current, revision)?;
        self.pins().put(past.clone());
        Ok(past)
    }

    /// The state as of a past revision, not kept at hand.
    pub(crate) fn past(&self, revision: Revision) -> Result<Snapshot, Error> {
        self.roll_back(&self.snapshot(), revision)
    }

    /// Undoes the events after `revision`. Keys of different topics differ, so topics are undone one by one.
    fn roll_back(&self, current: &Snapshot, revision: Revision) -> Result<Snapshot, Error> {
        let mut entries = current.entries().clone();
        for topic in self.all_topics() {
            let undone = topic.read().back_to(revision);
            for event in undone.into_iter().filter(|event| event.revision <= current.revision()) {
                match &event.old {
                    Some(old) => entries.insert(event.key.clone(), Arc::clone(old)),
                    None => entries.remove(&event.key),
                };
            }
        }
        // Checked last: if anything needed was trimmed meanwhile, the floor has passed the revision.
        self.check_kept(revision)?;
        Ok(Snapshot::new(revision, entries))
    }
}
