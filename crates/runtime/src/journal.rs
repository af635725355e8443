//! The journal is a bounded ring of records of what this operator did, with folds over it (metrics, console, oracles).
//!
//! Thousands of objects that are reconciled or changed must not push out the records that explain why one of them
//! fails. Records of changes and failures are therefore kept when they leave the ring: the last few for each object,
//! for the objects that had one most recently. Failures are kept separately, so that changes do not displace them.
//!
//! **Invariant:** writing never waits for a reader and never fails; when the ring has too many records or bytes, the
//! oldest are dropped, so memory is bounded. Folds see every record, even those that are dropped later.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use homeostat_core::journal::{Entry, HandlerOutcome, Record, RequestedNext, Source, WriteOutcome};
use homeostat_core::{Clock, Key};
use jiff::Timestamp;

/// The maximum number of records in the ring: about four megabytes, which covers some minutes of a busy operator and
/// days of a quiet one.
const RECORDS_MAX: usize = 16_384;

/// The maximum number of bytes in the ring: twice what usual records take, because diffs and errors may be long.
const RING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The maximum number of bytes of failures that outlive the ring, and likewise of changes.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many failures of one object are kept, and how many changes: they show how it fails, and what was done before
/// that.
pub(crate) const KEPT_PER_OBJECT: usize = 4;

/// The number of objects whose failures are kept, and of those whose changes are: each takes as much memory as the
/// ring.
pub(crate) const KEPT_OBJECTS: usize = 4096;

type Fold = Arc<dyn Fn(&Record) + Send + Sync>;

/// A handle to the journal. Cheap to clone; all clones write to the same ring.
#[derive(Clone)]
pub struct Journal(Arc<JournalShared>);

struct JournalShared {
    clock: Clock,
    started: Timestamp,
    is_kept: bool,
    held: Mutex<JournalState>,
    folds: RwLock<Vec<Fold>>,
}

#[derive(Default)]
struct JournalState {
    ring: VecDeque<Record>,
    ring_bytes: usize,
    failures: KeptRecords,
    changes: KeptRecords,
    dropped: u64,
}

/// How far back the journal reaches without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSpan {
    /// The time of the oldest record in the ring; `None` if it is empty.
    pub since: Option<Timestamp>,
    /// How many records were dropped before it.
    pub dropped: u64,
    /// When the journal began.
    pub started: Timestamp,
}

impl Journal {
    /// Creates an empty journal on this clock.
    pub fn new(clock: Clock) -> Self {
        // The ring grows as it is filled: a simulator creates thousands of operators a second that record little.
        Self::with(clock, true)
    }

    /// Creates a journal that keeps nothing, to measure what a journal costs.
    pub(crate) fn disabled(clock: Clock) -> Self {
        Self::with(clock, false)
    }

    fn with(clock: Clock, is_kept: bool) -> Self {
        let (held, folds) = (Mutex::default(), RwLock::default());
        Self(Arc::new(JournalShared { clock, started: clock.now(), is_kept, held, folds }))
    }

    /// Returns whether records are kept; if not, no effort needs to be spent on them.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_kept
    }

    /// Records what was done.
    pub fn record(&self, source: &Source, entry: Entry) {
        if !self.0.is_kept {
            return;
        }
        let record = Record { at: self.0.clock.now(), source: source.clone(), entry };
        for fold in self.0.folds.read().unwrap_or_else(PoisonError::into_inner).iter() {
            fold(&record);
        }
        // The oldest records are freed outside the lock.
        let oldest = self.state().push(record);
        drop(oldest);
    }

    /// Calls `fold` with every record from now on. It runs inside the writer, so it must be quick and must not write to
    /// the journal.
    pub fn fold(&self, fold: impl Fn(&Record) + Send + Sync + 'static) {
        self.0.folds.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(fold));
    }

    /// Returns the records in the ring, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.state().ring.iter().cloned().collect()
    }

    /// Returns the records about one object, oldest first: those in the ring, and before them its last changes and
    /// failures.
    pub fn about(&self, object: &Key) -> Vec<Record> {
        self.about_any(|key| key == object)
    }

    /// Returns the records about the objects for which `is_meant` is true, oldest first.
    pub(crate) fn about_any(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Record> {
        let held = self.state();
        let kept = held.failures.objects.iter().chain(&held.changes.objects);
        let kept = kept.filter(|(key, _)| is_meant(key));
        let mut known: Vec<&(u64, Record)> = kept.flat_map(|(_, records)| records).collect();
        known.sort_by_key(|(number, _)| *number);
        let recent = held.ring.iter().filter(|record| record.entry.object().is_some_and(&is_meant));
        known.into_iter().map(|(_, record)| record).chain(recent).cloned().collect()
    }

    /// Returns how far back the journal reaches without gaps.
    pub fn reach(&self) -> JournalSpan {
        let held = self.state();
        let since = held.ring.front().map(|record| record.at);
        JournalSpan { since, dropped: held.dropped, started: self.0.started }
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalState {
    /// Adds a record; returns the records that are no longer needed.
    fn push(&mut self, record: Record) -> Vec<Record> {
        self.ring_bytes += record.weight();
        self.ring.push_back(record);
        let mut unneeded = Vec::new();
        while self.ring.len() > RECORDS_MAX || self.ring_bytes > RING_BYTES_MAX {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.ring_bytes -= oldest.weight();
            self.dropped += 1;
            match retained_kind(&oldest.entry) {
                Some(RetainedKind::Failure) => self.failures.push(self.dropped, oldest, &mut unneeded),
                Some(RetainedKind::Change) => self.changes.push(self.dropped, oldest, &mut unneeded),
                None => unneeded.push(oldest),
            }
        }
        unneeded
    }
}

/// The kinds of records that outlive the ring.
enum RetainedKind {
    Failure,
    Change,
}

/// Returns how an entry is retained after it has left the ring. Failures and changes are retained; reconciles that
/// changed nothing, which are the vast majority, are not.
fn retained_kind(entry: &Entry) -> Option<RetainedKind> {
    match entry {
        Entry::Failed { .. }
        | Entry::Quarantined { .. }
        | Entry::Panicked { .. }
        | Entry::Wrote { outcome: WriteOutcome::Failed { .. }, .. }
        | Entry::Handled { outcome: HandlerOutcome::Retry { .. } | HandlerOutcome::GaveUp { .. }, .. } => {
            Some(RetainedKind::Failure)
        }
        Entry::Wrote { outcome: WriteOutcome::Done { .. } | WriteOutcome::Fenced, .. }
        | Entry::Drifted { .. }
        | Entry::Settled { next: RequestedNext::Gone, .. } => Some(RetainedKind::Change),
        _ => None,
    }
}

/// Records that outlive the ring, by object.
#[derive(Default)]
struct KeptRecords {
    /// The last records of each object with their numbers, oldest first; at least one.
    objects: HashMap<Key, VecDeque<(u64, Record)>>,
    /// The objects, ordered by when a record about them was last kept.
    order: BTreeMap<u64, Key>,
    bytes: usize,
}

impl KeptRecords {
    /// Adds a record whose number is higher than all previous ones; adds those that are no longer needed to `unneeded`.
    fn push(&mut self, number: u64, record: Record, unneeded: &mut Vec<Record>) {
        let Some(object) = record.entry.object().cloned() else { return unneeded.push(record) };
        let before = unneeded.len();
        self.bytes += record.weight();
        self.order.insert(number, object.clone());
        let records = self.objects.entry(object).or_default();
        if let Some((before, _)) = records.back() {
            self.order.remove(before);
        }
        records.push_back((number, record));
        if records.len() > KEPT_PER_OBJECT {
            unneeded.extend(records.pop_front().map(|(_, record)| record));
        }
        let freed = |unneeded: &[Record]| unneeded[before..].iter().map(Record::weight).sum::<usize>();
        while self.objects.len() > KEPT_OBJECTS || self.bytes - freed(unneeded) > KEPT_BYTES_MAX {
            let Some((_, object)) = self.order.pop_first() else { break };
            let records = self.objects.remove(&object).unwrap_or_default();
            unneeded.extend(records.into_iter().map(|(_, record)| record));
        }
        self.bytes -= freed(unneeded);
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

    use homeostat_core::FieldDiff;
    use homeostat_core::journal::{Cause, FaultClass, Verb};

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

    fn wrote(object: Key) -> Entry {
        let (target, outcome) = (object.clone(), WriteOutcome::Done { revision: None });
        Entry::Wrote { object, verb: Verb::Apply, target, outcome, diff: FieldDiff::default() }
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
    fn no_change_takes_the_place_of_a_failure() {
        // All records have the same time: their order is the order in which they were written.
        let journal = Journal::new(Clock::virtual_from(Timestamp::UNIX_EPOCH));
        let sick = Key::new("", "things", "", "sick");
        let told =
            [wrote(sick.clone()), failed(sick.clone(), 1), wrote(sick.clone()), failed(sick.clone(), 2)];
        for entry in &told {
            journal.record(&"test".into(), entry.clone());
        }
        let known = || journal.about(&sick).into_iter().map(|record| record.entry).collect::<Vec<_>>();
        fill(&journal, |number| looked_at(thing(number)), RECORDS_MAX);
        assert_eq!(known(), told);
        fill(&journal, |number| wrote(thing(number)), KEPT_OBJECTS + 1);
        fill(&journal, |number| looked_at(thing(number)), RECORDS_MAX);
        assert_eq!(known(), [failed(sick.clone(), 1), failed(sick.clone(), 2)]);
        let held = journal.state();
        assert_eq!((held.changes.objects.len(), held.changes.order.len()), (KEPT_OBJECTS, KEPT_OBJECTS));
    }

    #[test]
    fn long_diffs_and_errors_do_not_take_more_memory() {
        let journal = Journal::new(Clock::system());
        let long = |number: usize| Entry::Failed {
            object: thing(number),
            error: "x".repeat(100_000),
            fault: FaultClass::Terminal,
            failures: 1,
            took: Duration::ZERO,
        };
        fill(&journal, long, 400);
        let held = journal.state();
        let ring: usize = held.ring.iter().map(Record::weight).sum();
        let kept = held.failures.objects.values().flatten().map(|(_, record)| record.weight()).sum::<usize>();
        assert_eq!((ring, kept), (held.ring_bytes, held.failures.bytes));
        assert!(ring <= RING_BYTES_MAX && kept <= KEPT_BYTES_MAX, "{ring} {kept}");
        assert!(held.ring.len() > 60 && held.failures.objects.len() > 60, "most of the memory is used");
        assert_eq!(held.failures.objects.len(), held.failures.order.len());
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_longest_quiet_goes_first() {
        let journal = Journal::new(Clock::system());
        fill(&journal, |number| failed(thing(number), 1), KEPT_OBJECTS);
        journal.record(&"test".into(), failed(thing(0), 2));
        fill(&journal, |number| failed(thing(KEPT_OBJECTS + number), 1), 10);
        fill(&journal, |_| looked_at(Key::new("", "things", "", "crowd")), RECORDS_MAX);
        let held = journal.state();
        let KeptRecords { objects, order, .. } = &held.failures;
        assert_eq!((objects.len(), order.len()), (KEPT_OBJECTS, KEPT_OBJECTS));
        drop(held);
        assert_eq!(journal.about(&thing(0)).len(), 2);
        assert!(journal.about(&thing(1)).is_empty(), "longest quiet");
        assert_eq!(journal.about(&thing(11)).len(), 1);
    }
}
