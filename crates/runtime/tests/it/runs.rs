//! Reads the runs of reconcilers from their journals: how many there were, and which runs of two replicas overlap.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record};
use jiff::Timestamp;

use crate::test_cluster::Running;

/// The start and end of each reconcile, by object. A run that has not ended lasts forever.
pub(crate) fn spans(records: &[Record]) -> BTreeMap<Key, Vec<(Timestamp, Timestamp)>> {
    let mut open: BTreeMap<Key, Timestamp> = BTreeMap::new();
    let mut spans: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for record in records {
        match &record.entry {
            Entry::Started { object, .. } => {
                let before = open.insert(object.clone(), record.at);
                assert_eq!(before, None, "{object} was started twice");
            }
            Entry::Settled { object, .. }
            | Entry::Failed { object, .. }
            | Entry::Cancelled { object, .. } => {
                let start = open.remove(object).expect("it was started");
                spans.entry(object.clone()).or_default().push((start, record.at));
            }
            _ => {}
        }
    }
    for (object, start) in open {
        spans.entry(object).or_default().push((start, Timestamp::MAX));
    }
    spans
}

/// Returns how many runs there were.
pub(crate) fn count(replica: &Running) -> usize {
    spans(&replica.journal.records()).values().map(Vec::len).sum()
}

/// Returns the runs of one object that overlap in two replicas.
pub(crate) fn overlaps(one: &Running, two: &Running) -> Vec<String> {
    let (one, two) = (spans(&one.journal.records()), spans(&two.journal.records()));
    let mut found = Vec::new();
    for (object, ours) in &one {
        for (start, end) in ours {
            for (begin, close) in two.get(object).into_iter().flatten() {
                if begin < end && start < close {
                    found.push(format!("{object}: first {start}..{end}, second {begin}..{close}"));
                }
            }
        }
    }
    found
}
