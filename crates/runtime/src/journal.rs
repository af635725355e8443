//! The journal: a bounded ring of what this operator did, and the folds that live on it (metrics, console, oracles).
//!
//! Thousands of objects that are merely looked at must not push out why one of them fails. So what a record in the ring
//! said of an object outlives it there when it was a change or a failure: the last few of each object are kept, for the
//! objects it happened to last.
//!
//! **Invariant:** writing never waits for a reader and never fails; when the ring is full the oldest record goes, and
//! memory is bounded. Folds see every record, also those that are dropped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use homeostat_core::journal::{Entry, HandlerOutcome, Next, Record, Source, WriteOutcome};
use homeostat_core::{Clock, Key};
use jiff::Timestamp;

/// Records in the ring: about four megabytes, some minutes of a busy operator and days of a quiet one.
const RECORDS_MAX: usize = 16_384;

/// Changes and failures kept of one object: the last failure and what led to it.
pub(crate) const KEPT_PER_OBJECT: usize = 4;

/// Objects of which they are kept: as much memory again as the ring.
pub(crate) const KEPT_OBJECTS: usize = 4096;

type Fold = Arc<dyn Fn(&Record) + Send + Sync>;

/// A handle on the journal. Cheap to clone; all clones write to the same ring.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    clock: Clock,
    held: Mutex<Held>,
    folds: RwLock<Vec<Fold>>,
}

#[derive(Default)]
struct Held {
    ring: VecDeque<Record>,
    kept: Kept,
    dropped: u64,
}

/// How far back the journal reaches without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The time of the oldest record in the ring; none when it is empty.
    pub(crate) since: Option<Timestamp>,
    /// Records that were before.
    pub(crate) dropped: u64,
}

impl Journal {
    /// An empty journal on this clock.
    pub fn new(clock: Clock) -> Self {
        let held = Held { ring: VecDeque::with_capacity(RECORDS_MAX), ..Held::default() };
        Self(Arc::new(Shared { clock, held: Mutex::new(held), folds: RwLock::default() }))
    }

    /// Writes down what was done.
    pub fn record(&self, source: &Source, entry: Entry) {
        let record = Record { at: self.0.clock.now(), source: source.clone(), entry };
        for fold in self.0.folds.read().unwrap_or_else(PoisonError::into_inner).iter() {
            fold(&record);
        }
        // What the oldest record held is freed outside the lock.
        let oldest = self.held().push(record);
        drop(oldest);
    }

    /// Calls `fold` with every record from now on. It runs inside the writer, so it must be quick and must not write.
    pub fn fold(&self, fold: impl Fn(&Record) + Send + Sync + 'static) {
        self.0.folds.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(fold));
    }

    /// What the ring holds, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.held().ring.iter().cloned().collect()
    }

    /// What is known about one object, oldest first: what the ring holds, and before that its last changes and failures.
    pub fn about(&self, object: &Key) -> Vec<Record> {
        self.about_any(|key| key == object)
    }

    /// The same about the objects that are meant.
    pub(crate) fn about_any(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Record> {
        let held = self.held();
        let kept = held.kept.objects.iter().filter(|(key, _)| is_meant(key));
        let mut known: Vec<Record> = kept.flat_map(|(_, kept)| &kept.records).cloned().collect();
        known.sort_by_key(|record| record.at);
        let recent = held.ring.iter().filter(|record| record.entry.object().is_some_and(&is_meant));
        known.extend(recent.cloned());
        known
    }

    pub(crate) fn reach(&self) -> Reach {
        let held = self.held();
        Reach { since: held.ring.front().map(|record| record.at), dropped: held.dropped }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Takes a record in; returns one that is no longer needed.
    fn push(&mut self, record: Record) -> Option<Record> {
        let oldest = if self.ring.len() == RECORDS_MAX { self.ring.pop_front() } else { None };
        self.ring.push_back(record);
        let oldest = oldest?;
        self.dropped += 1;
        if is_lasting(&oldest.entry) { self.kept.push(oldest) } else { Some(oldest) }
    }
}

/// Did something change or fail? Only looking at an object, which is most of what happens, is forgotten with the ring.
fn is_lasting(entry: &Entry) -> bool {
    match entry {
        Entry::Failed { .. }
        | Entry::Quarantined { .. }
        | Entry::Drifted { .. }
        | Entry::Settled { next: Next::Gone, .. } => true,
        Entry::Wrote { outcome, .. } => *outcome != WriteOutcome::Skipped,
        Entry::Handled { outcome, .. } => *outcome != HandlerOutcome::Done,
        _ => false,
    }
}

/// What outlives the ring, object by object.
#[derive(Default)]
struct Kept {
    objects: HashMap<Key, Lasting>,
    /// The objects in the order in which something was last kept of them.
    order: BTreeMap<u64, Key>,
    next: u64,
}

struct Lasting {
    records: VecDeque<Record>,
    turn: u64,
}

impl Kept {
    fn push(&mut self, record: Record) -> Option<Record> {
        let Some(object) = record.entry.object().cloned() else { return Some(record) };
        let turn = self.next;
        self.next += 1;
        self.order.insert(turn, object.clone());
        let lasting = self.objects.entry(object);
        let lasting = lasting.or_insert_with(|| Lasting { records: VecDeque::new(), turn });
        if lasting.turn != turn {
            self.order.remove(&std::mem::replace(&mut lasting.turn, turn));
        }
        lasting.records.push_back(record);
        let oldest = if lasting.records.len() > KEPT_PER_OBJECT { lasting.records.pop_front() } else { None };
        if self.objects.len() > KEPT_OBJECTS
            && let Some((_, object)) = self.order.pop_first()
        {
            self.objects.remove(&object);
        }
        oldest
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use homeostat_core::journal::{Cause, FaultClass};

    use super::*;

    fn thing(number: usize) -> Key {
        Key::new("", "things", "", &number.to_string())
    }

    fn looked_at(object: Key) -> Entry {
        Entry::Queued { object, cause: Cause::Created }
    }

    fn failed(object: Key, failures: u32) -> Entry {
        let took = Duration::ZERO;
        Entry::Failed { object, error: "odd".into(), fault: FaultClass::Terminal, failures, took }
    }

    fn fill(journal: &Journal, entry: impl Fn(usize) -> Entry, count: usize) {
        for number in 0..count {
            journal.record(&"test".into(), entry(number));
        }
    }

    #[test]
    fn the_oldest_goes_and_folds_see_all() {
        let journal = Journal::new(Clock::system());
        let seen = Arc::new(Mutex::new(0));
        let counter = seen.clone();
        journal.fold(move |_| *counter.lock().unwrap() += 1);
        fill(&journal, |number| looked_at(thing(number)), RECORDS_MAX + 1);
        assert_eq!(*seen.lock().unwrap(), RECORDS_MAX + 1);
        assert_eq!(journal.records().len(), RECORDS_MAX);
        assert!(journal.about(&thing(0)).is_empty());
        assert_eq!(journal.about(&thing(1)).len(), 1);
        assert_eq!(journal.reach().dropped, 1);
    }

    #[test]
    fn the_last_failures_of_an_object_outlive_the_crowd() {
        let journal = Journal::new(Clock::system());
        let sick = Key::new("", "things", "", "sick");
        journal.record(&"test".into(), looked_at(sick.clone()));
        (1..=9).for_each(|failures| journal.record(&"test".into(), failed(sick.clone(), failures)));
        fill(&journal, |number| looked_at(thing(number)), 3 * RECORDS_MAX);
        journal.record(&"test".into(), failed(sick.clone(), 10));
        let failures = journal.about(&sick).into_iter().map(|record| match record.entry {
            Entry::Failed { failures, .. } => failures,
            other => panic!("{other:?}"),
        });
        assert_eq!(failures.collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_longest_quiet_goes_first() {
        let journal = Journal::new(Clock::system());
        fill(&journal, |number| failed(thing(number), 1), KEPT_OBJECTS);
        journal.record(&"test".into(), failed(thing(0), 2));
        fill(&journal, |number| failed(thing(KEPT_OBJECTS + number), 1), 10);
        fill(&journal, |_| looked_at(Key::new("", "things", "", "crowd")), RECORDS_MAX);
        let held = journal.held();
        assert_eq!((held.kept.objects.len(), held.kept.order.len()), (KEPT_OBJECTS, KEPT_OBJECTS));
        drop(held);
        assert_eq!(journal.about(&thing(0)).len(), 2);
        assert!(journal.about(&thing(1)).is_empty(), "longest quiet");
        assert_eq!(journal.about(&thing(11)).len(), 1);
    }
}
