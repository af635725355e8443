//! The published state is visible to all readers: the newest snapshot, the topics of the resources, and how far back
//! history reaches.
//!
//! Readers and watchers access only this; the writer hands over one whole batch at a time, already durable.
//!
//! **Invariant:** the order of publication is topics, snapshot, visible revision, wake-ups. A reader that learns a
//! revision therefore finds its state, and one that reads the visible revision finds every event up to it in the
//! topics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::ArcSwap;
use homeostat_core::Revision;

use crate::pinned_snapshots::PinnedSnapshots;
use crate::topic::Topic;
use crate::{Error, Event, Snapshot};

/// The state shared between the writer and its readers.
#[derive(Debug, Default)]
pub(crate) struct PublishedState {
    current: ArcSwap<Snapshot>,
    visible: AtomicU64,
    /// The last forgotten revision; history is complete after it.
    floor: AtomicU64,
    topics: RwLock<BTreeMap<Box<str>, Arc<Topic>>>,
    pins: Mutex<PinnedSnapshots>,
    is_closed: AtomicBool,
}

impl PublishedState {
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

    /// Checks that the history after `revision` is complete.
    pub(crate) fn check_kept(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.floor() { Err(self.compacted(revision)) } else { Ok(()) }
    }

    pub(crate) fn compacted(&self, asked: Revision) -> Error {
        Error::Compacted { asked, oldest: self.floor() }
    }

    /// Returns a resource's topic, creating it on first use.
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

    /// Makes a batch visible whose events are already in the topics.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let revision = snapshot.revision();
        self.current.store(Arc::new(snapshot));
        self.visible.store(revision.get(), Ordering::Release);
    }

    /// Declares history up to `floor` forgotten. It is called before the events are trimmed, so that a watch that
    /// passed its check under the topic's lock finds its events.
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

    pub(crate) fn pins(&self) -> MutexGuard<'_, PinnedSnapshots> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state as of `revision`: the present, a pinned snapshot, or the present with newer events undone.
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
        let past = self.undo(current, revision)?.apply();
        self.pins().put(past.clone());
        Ok(past)
    }

    /// Returns every change after `revision`, oldest first.
    pub(crate) fn changes_after(&self, revision: Revision) -> Result<Vec<Arc<Event>>, Error> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let mut events: Vec<_> = topics.values().flat_map(|topic| topic.read().back_to(revision)).collect();
        drop(topics);
        self.check_kept(revision)?;
        // Within a commit, changes are sorted by key: they all have different keys.
        events.sort_by(|one, other| (one.revision, &one.key).cmp(&(other.revision, &other.key)));
        Ok(events)
    }

    /// Collects the events between `current` and a past `revision`. This is quick: [`SnapshotRollback::apply`] undoes
    /// them later and may take a while, during which history moves on.
    pub(crate) fn undo(&self, current: Snapshot, revision: Revision) -> Result<SnapshotRollback, Error> {
        let newest = current.revision();
        let mut events = Vec::new();
        for topic in self.all_topics() {
            let newer = topic.read().back_to(revision);
            events.extend(newer.into_iter().filter(|event| event.revision <= newest));
        }
        // This is checked last: if anything needed had been trimmed in the meantime, the floor would have passed the
        // revision.
        self.check_kept(revision)?;
        Ok(SnapshotRollback { current, revision, events })
    }
}

/// The events to undo to get from one snapshot to an earlier one.
#[derive(Debug)]
pub(crate) struct SnapshotRollback {
    current: Snapshot,
    revision: Revision,
    /// Newest first within a topic. Keys of different topics differ, so the order of topics does not matter.
    events: Vec<Arc<Event>>,
}

impl SnapshotRollback {
    pub(crate) fn apply(self) -> Snapshot {
        let mut entries = self.current.into_entries();
        for event in self.events {
            match &event.old {
                Some(old) => entries.insert(event.key.clone(), Arc::clone(old)),
                None => entries.remove(&event.key),
            };
        }
        Snapshot::new(self.revision, entries)
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Clock, Key};

    use super::*;
    use crate::history::Limits;
    use crate::writer::Writer;
    use crate::{Expect, Op, Txn, Value};

    /// Found with a million overwrites: no checkpoint was ever written, because the floor had always moved on before
    /// the state at the floor was ready.
    #[test]
    fn the_way_back_holds_while_history_is_forgotten() {
        let published = Arc::new(PublishedState::default());
        let mut writer = Writer::new(Arc::clone(&published), Clock::system(), Limits::default());
        let key = Key::new("", "pods", "default", "a");
        for text in ["1", "2", "3"] {
            let batch = writer.prepare([Txn::one(key.clone(), Expect::Any, Op::Put(Value::plain(text)))]);
            writer.publish(batch).1.ring();
        }
        let undo = published.undo(published.snapshot(), Revision::new(1)).expect("all history is kept");
        writer.compact(Revision::new(3)).expect("the past can be forgotten");
        let past = undo.apply();
        assert_eq!(past.get(&key).map(|entry| &entry.bytes[..]), Some(&b"1"[..]));
        assert!(published.undo(published.snapshot(), Revision::new(1)).is_err());
    }
}
