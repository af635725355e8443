//! The only writer checks transactions in order against the working state, gives each one that changes something its
//! own revision, and publishes a whole batch once it is durable.
//!
//! This module performs no I/O: [`Writer::prepare`] does not change anything visible, so a batch that cannot be made
//! durable is dropped without a trace. The memory store publishes immediately, the disk store after its log was synced.

use std::sync::Arc;

use homeostat_core::{Clock, Key, Revision};
use imbl::OrdMap;
use jiff::Timestamp;

use crate::history::{History, Limits};
use crate::published::PublishedState;
use crate::topic::Topic;
use crate::{Committed, Entry, Error, Event, Expect, Op, Snapshot, Txn};

/// The writing side of a store.
#[derive(Debug)]
pub(crate) struct Writer {
    published: Arc<PublishedState>,
    history: History,
    clock: Clock,
}

/// Transactions that were checked and applied to a private copy of the state.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The state after the batch.
    pub(crate) snapshot: Snapshot,
    /// Every change, in order of revision.
    pub(crate) events: Vec<Arc<Event>>,
    /// One result per transaction, to be returned once the batch is durable.
    pub(crate) results: Vec<Result<Committed, Error>>,
    /// When the batch was prepared.
    pub(crate) at: Timestamp,
}

impl Writer {
    pub(crate) fn new(published: Arc<PublishedState>, clock: Clock, limits: Limits) -> Self {
        Self { published, history: History::new(limits), clock }
    }

    /// Applies `txns` in order to a copy of the newest state.
    pub(crate) fn prepare(&self, txns: impl IntoIterator<Item = Txn>) -> Batch {
        let current = self.published.snapshot();
        let mut work = WorkingState {
            revision: current.revision(),
            entries: current.entries().clone(),
            events: Vec::new(),
        };
        let results = txns.into_iter().map(|txn| work.apply(txn)).collect();
        let snapshot = Snapshot::new(work.revision, work.entries);
        Batch { snapshot, events: work.events, results, at: self.clock.now() }
    }

    /// Applies changes that another store made starting from this one's newest state.
    pub(crate) fn prepare_again(&self, changes: &[Arc<Event>]) -> Result<Batch, Error> {
        let current = self.published.snapshot();
        let (mut revision, mut entries) = (current.revision(), current.entries().clone());
        for event in changes {
            let key = &event.key;
            let old = match &event.new {
                Some(new) => entries.insert(key.clone(), Arc::clone(new)),
                None => entries.remove(key),
            };
            let revision_of = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.revision);
            let is_next = event.revision == revision || event.revision == revision.next();
            if revision_of(&old) != revision_of(&event.old) || !is_next {
                let actual = revision_of(&old).unwrap_or(Revision::ZERO);
                return Err(Error::Conflict { key: key.clone(), actual });
            }
            revision = event.revision;
        }
        let snapshot = Snapshot::new(revision, entries);
        Ok(Batch { snapshot, events: changes.to_vec(), results: Vec::new(), at: self.clock.now() })
    }

    /// Makes a durable batch visible and returns the results. The caller delivers them, then wakes the watchers.
    pub(crate) fn publish(&mut self, batch: Batch) -> (Vec<Result<Committed, Error>>, PendingWakeups) {
        let mut wake = PendingWakeups::default();
        for event in batch.events {
            let topic = self.published.topic(topic_of(&event.key));
            wake.add(&topic);
            self.history.append(event, &topic, batch.at);
        }
        self.published.publish(batch.snapshot);
        self.history.trim(&self.published, batch.at);
        (batch.results, wake)
    }

    /// Forgets history at and before `revision`.
    pub(crate) fn compact(&mut self, revision: Revision) -> Result<(), Error> {
        let current = self.published.visible();
        if revision > current {
            return Err(Error::Future { asked: revision, current });
        }
        self.history.forget(&self.published, revision);
        self.published.pins().forget(revision);
        Ok(())
    }
}

/// A change to one key as stored in the log; replaying restores the old entry.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    /// `None` if the key was deleted.
    pub(crate) new: Option<Arc<Entry>>,
}

/// Restores past commits, starting from a checkpoint.
#[derive(Debug)]
pub(crate) struct LogReplay<'a> {
    writer: &'a mut Writer,
    start: Revision,
    revision: Revision,
    entries: OrdMap<Key, Arc<Entry>>,
}

impl Writer {
    /// Starts from a past state; nothing is visible before [`LogReplay::finish`].
    pub(crate) fn replay(&mut self, start: Snapshot) -> LogReplay<'_> {
        self.published.forget(start.revision());
        let revision = start.revision();
        LogReplay { writer: self, start: revision, revision, entries: start.into_entries() }
    }
}

impl LogReplay<'_> {
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Applies changes made at `at`, except those before the start.
    pub(crate) fn apply(&mut self, changes: Vec<Change>, at: Timestamp) {
        let start = self.start;
        for Change { revision, key, new } in changes.into_iter().filter(|change| change.revision > start) {
            let old = match &new {
                Some(new) => self.entries.insert(key.clone(), Arc::clone(new)),
                None => self.entries.remove(&key),
            };
            let topic = self.writer.published.topic(topic_of(&key));
            let event = Arc::new(Event { revision, key, new, old });
            self.writer.history.append(event, &topic, at);
            self.revision = revision;
        }
        self.writer.history.trim(&self.writer.published, at);
    }

    /// Makes the recovered state visible.
    pub(crate) fn finish(self) {
        self.writer.published.publish(Snapshot::new(self.revision, self.entries));
    }
}

/// The topics that received events, each listed once. The caller notifies them after delivering the results.
#[derive(Debug, Default)]
#[must_use = "watchers sleep until they are notified"]
pub(crate) struct PendingWakeups(Vec<Arc<Topic>>);

impl PendingWakeups {
    fn add(&mut self, topic: &Arc<Topic>) {
        // A batch touches a handful of topics, mostly one.
        if !self.0.iter().rev().any(|known| Arc::ptr_eq(known, topic)) {
            self.0.push(Arc::clone(topic));
        }
    }

    pub(crate) fn ring(self) {
        for topic in self.0 {
            topic.arrived.notify_waiters();
        }
    }
}

/// The state a batch works on.
struct WorkingState {
    revision: Revision,
    entries: OrdMap<Key, Arc<Entry>>,
    events: Vec<Arc<Event>>,
}

impl WorkingState {
    fn apply(&mut self, txn: Txn) -> Result<Committed, Error> {
        for (key, expect, _) in &txn.steps {
            if !key.is_well_formed() {
                return Err(Error::BadKey { key: key.clone() });
            }
            self.check(key, *expect)?;
        }
        let revision = self.revision.next();
        let changes_before = self.events.len();
        let entries = txn.steps.into_iter().map(|(key, _, op)| self.step(revision, key, op)).collect();
        if self.events.len() > changes_before {
            self.revision = revision;
        }
        Ok(Committed { revision: self.revision, entries })
    }

    fn check(&self, key: &Key, expect: Expect) -> Result<(), Error> {
        let actual = self.entries.get(key).map_or(Revision::ZERO, |entry| entry.revision);
        let holds = match expect {
            Expect::Any => true,
            Expect::Absent => actual == Revision::ZERO,
            Expect::At(expected) => actual == expected && actual != Revision::ZERO,
        };
        if holds { Ok(()) } else { Err(Error::Conflict { key: key.clone(), actual }) }
    }

    fn step(&mut self, revision: Revision, key: Key, op: Op) -> Option<Arc<Entry>> {
        // The name is shared with the previous version, so a key's text is stored only once.
        let key = self.entries.get(&key).map_or(key, |entry| entry.key.clone());
        let (new, old) = match op {
            Op::Check => return None,
            Op::Put(value) => {
                let new = Arc::new(Entry::new(key.clone(), revision, &value));
                let old = self.entries.insert(key.clone(), Arc::clone(&new));
                (Some(new), old)
            }
            Op::Delete => (None, Some(self.entries.remove(&key)?)),
        };
        self.events.push(Arc::new(Event { revision, key, new: new.clone(), old }));
        new
    }
}

/// Returns the `group/resource/` part of a key.
fn topic_of(key: &Key) -> &str {
    let text = key.as_str();
    let end = text.match_indices('/').nth(1).map_or(text.len(), |(at, _)| at + 1);
    &text[..end]
}
