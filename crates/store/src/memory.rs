//! A store that forgets everything when its process exits, for tests, the simulator and `--ephemeral`.
//!
//! A commit happens inside the call, under a mutex, without a task or thread: on a single tokio thread with paused
//! time, commits happen in the order of the calls.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use homeostat_core::{Clock, Prefix, Revision};

use crate::history::Limits;
use crate::published::PublishedState;
use crate::writer::Writer;
use crate::{Committed, Error, Event, Snapshot, Store, Txn, Watch};

/// A store without durability.
#[derive(Debug)]
pub struct Memory {
    published: Arc<PublishedState>,
    writer: Mutex<Writer>,
}

impl Memory {
    /// Creates an empty store on the machine's clock, with the default history.
    pub fn new() -> Self {
        Self::with(Clock::system(), Limits::default())
    }

    /// Creates an empty store; `clock` determines the age of history.
    pub fn with(clock: Clock, limits: Limits) -> Self {
        let published = Arc::new(PublishedState::default());
        let writer = Mutex::new(Writer::new(Arc::clone(&published), clock, limits));
        Self { published, writer }
    }

    /// Creates a store with the contents of `snapshot`, at its revision and without history. O(1): the entries are
    /// shared.
    pub fn holding(snapshot: Snapshot, clock: Clock, limits: Limits) -> Self {
        let store = Self::with(clock, limits);
        let mut writer = store.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.replay(snapshot).finish();
        drop(writer);
        store
    }

    /// Returns every change after `revision`, in order; [`Error::Compacted`] if some have left the history window.
    pub fn changes_after(&self, revision: Revision) -> Result<Vec<Arc<Event>>, Error> {
        self.published.changes_after(revision)
    }

    /// Repeats changes that another store made starting from exactly this store's state: events and entries are shared,
    /// and nothing is encoded again. Returns [`Error::Conflict`] and changes nothing if the state is a different one.
    pub fn repeat(&self, changes: &[Arc<Event>]) -> Result<(), Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.published.is_closed() {
            return Err(Error::Closed);
        }
        let batch = writer.prepare_again(changes)?;
        let (_, wake) = writer.publish(batch);
        wake.ring();
        Ok(())
    }

    fn commit_now(&self, txn: Txn) -> Result<Committed, Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.published.is_closed() {
            return Err(Error::Closed);
        }
        let batch = writer.prepare([txn]);
        let (mut results, wake) = writer.publish(batch);
        wake.ring();
        results.pop().expect("one transaction has one answer")
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for Memory {
    fn snapshot(&self) -> Snapshot {
        self.published.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        self.published.snapshot_at(revision)
    }

    fn pin(&self, snapshot: &Snapshot) {
        self.published.pins().put(snapshot.clone());
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'static, Result<Committed, Error>> {
        ready(self.commit_now(txn)).boxed()
    }

    fn watch(&self, prefix: &Prefix, from: Revision) -> Result<Watch, Error> {
        Watch::new(Arc::clone(&self.published), prefix, from)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), Error>> {
        ready(self.writer.lock().unwrap_or_else(PoisonError::into_inner).compact(revision)).boxed()
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        // This holds the writer's lock, so that no commit slips in after the watches have ended.
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.published.close();
        ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Key;

    use super::*;
    use crate::{Expect, Op, Value};

    fn put(store: &Memory, name: &str) -> Revision {
        let value = Value { hole: Some(1), ..Value::plain("<>") };
        let txn = Txn::one(Key::new("", "things", "", name), Expect::Any, Op::Put(value));
        store.commit_now(txn).unwrap().revision
    }

    #[test]
    fn changes_are_repeated_from_the_same_state_only() {
        let (first, second) = (Memory::new(), Memory::new());
        let start = put(&first, "a");
        second.repeat(&first.changes_after(Revision::ZERO).unwrap()).unwrap();
        put(&first, "b");
        put(&first, "a");
        let changes = first.changes_after(start).unwrap();
        second.repeat(&changes).unwrap();
        let entries = |store: &Memory| {
            store.snapshot().iter().map(|entry| (entry.key.clone(), entry.bytes.clone())).collect::<Vec<_>>()
        };
        assert_eq!(entries(&first), entries(&second));
        assert_eq!(first.snapshot().revision(), second.snapshot().revision());
        assert_eq!(second.changes_after(start).unwrap().len(), 2, "watches are told");
        assert!(matches!(second.repeat(&changes), Err(Error::Conflict { .. })), "they were made already");
        assert_eq!(first.snapshot().revision(), second.snapshot().revision());
    }
}
