//! Collects what an operator did, for assertions.

use std::ops::Deref;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record, WriteOutcome};
use homeostat_runtime::{Kind, ObjectName};

use super::objects::key_of;

/// A position in one operator's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalMark(pub(super) usize);

/// Records from one operator's journal, oldest first. Nothing is ever dropped, no matter how long the test runs.
#[derive(Clone, Debug)]
pub struct Records(pub(super) Vec<Record>);

impl Records {
    /// Returns the records of one object's reconciles.
    #[must_use]
    pub fn about<K: Kind>(&self, object: impl Into<ObjectName>) -> Self {
        let key = key_of::<K>(&object.into());
        Self(self.0.iter().filter(|record| record.entry.object() == Some(&key)).cloned().collect())
    }

    /// Returns how many reconciles began.
    pub fn reconciles(&self) -> usize {
        self.reconciled().count()
    }

    /// Returns the writes that the server accepted, in words: `apply configmaps/default/home`.
    pub fn writes(&self) -> Vec<String> {
        let writes = self.0.iter().filter_map(|record| match &record.entry {
            Entry::Wrote { verb, target, outcome: WriteOutcome::Done { .. }, .. } => {
                Some(format!("{} {target}", format!("{verb:?}").to_lowercase()))
            }
            _ => None,
        });
        writes.collect()
    }

    /// Returns the errors of reconciles that failed, with their causes.
    pub fn failures(&self) -> Vec<String> {
        let failures = self.0.iter().filter_map(|record| match &record.entry {
            Entry::Failed { error, .. } => Some(error.clone()),
            _ => None,
        });
        failures.collect()
    }

    /// Panics if anything was written.
    #[track_caller]
    pub fn expect_no_writes(&self) {
        assert!(self.writes().is_empty(), "expected no writes, and these were made: {:#?}", self.writes());
    }

    /// Panics if a reconcile failed.
    #[track_caller]
    pub fn expect_no_failures(&self) {
        let failures = self.failures();
        assert!(failures.is_empty(), "expected no reconcile to fail, and these did: {failures:#?}");
    }

    /// Panics if anything was reconciled.
    #[track_caller]
    pub fn expect_no_reconciles(&self) {
        let reconciled: Vec<String> = self.reconciled().map(Key::to_string).collect();
        assert!(reconciled.is_empty(), "expected no reconciles, and these began: {reconciled:#?}");
    }

    fn reconciled(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().filter_map(|record| match &record.entry {
            Entry::Started { object, .. } => Some(object),
            _ => None,
        })
    }
}

impl Deref for Records {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        &self.0
    }
}
