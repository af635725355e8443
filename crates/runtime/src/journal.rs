//! The journal: a bounded ring of what this operator did, and the folds that live on it (metrics, console, oracles).
//!
//! **Invariant:** writing never waits for a reader and never fails; when the ring is full the oldest record goes.
//! Folds see every record, also those the ring has dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use homeostat_core::journal::{Entry, Record, Source};
use homeostat_core::{Clock, Key};

/// Records kept for `why`: about four megabytes, some minutes of a busy operator and days of a quiet one.
const RECORDS_MAX: usize = 16_384;

type Fold = Arc<dyn Fn(&Record) + Send + Sync>;

/// A handle on the journal. Cheap to clone; all clones write to the same ring.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    clock: Clock,
    ring: Mutex<VecDeque<Record>>,
    folds: RwLock<Vec<Fold>>,
}

impl Journal {
    /// An empty journal on this clock.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared { clock, ring: Mutex::default(), folds: RwLock::default() }))
    }

    /// Writes down what was done.
    pub fn record(&self, source: &Source, entry: Entry) {
        let record = Record { at: self.0.clock.now(), source: source.clone(), entry };
        for fold in self.0.folds.read().unwrap_or_else(PoisonError::into_inner).iter() {
            fold(&record);
        }
        // What the oldest record held is freed outside the lock.
        let oldest = {
            let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
            let oldest = if ring.len() == RECORDS_MAX { ring.pop_front() } else { None };
            ring.push_back(record);
            oldest
        };
        drop(oldest);
    }

    /// Calls `fold` with every record from now on. It runs inside the writer, so it must be quick and must not write.
    pub fn fold(&self, fold: impl Fn(&Record) + Send + Sync + 'static) {
        self.0.folds.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(fold));
    }

    /// What the ring holds, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// What the ring holds about one object, oldest first.
    pub fn about(&self, object: &Key) -> Vec<Record> {
        let ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.iter().filter(|record| record.entry.object() == Some(object)).cloned().collect()
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::journal::Cause;

    use super::*;

    #[test]
    fn the_oldest_goes_and_folds_see_all() {
        let journal = Journal::new(Clock::system());
        let seen = Arc::new(Mutex::new(0));
        let counter = seen.clone();
        journal.fold(move |_| *counter.lock().unwrap() += 1);
        for number in 0..=RECORDS_MAX {
            let object = Key::new("", "things", "", &number.to_string());
            journal.record(&"test".into(), Entry::Queued { object, cause: Cause::Created });
        }
        assert_eq!(*seen.lock().unwrap(), RECORDS_MAX + 1);
        assert_eq!(journal.records().len(), RECORDS_MAX);
        assert!(journal.about(&Key::new("", "things", "", "0")).is_empty());
        assert_eq!(journal.about(&Key::new("", "things", "", "1")).len(), 1);
    }
}
