//! Extracts what the journal of a planned operator adds to its writes: which reconciles run, which objects fail, and
//! which will be reconciled again later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use homeostat_core::journal::{Entry, FaultClass, Record, RequestedNext};
use homeostat_runtime::Journal;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::report::{DueLater, FailingObject};

/// The number of records (a hundred reconciles or more) after which the plan checks whether something is looping.
const RECORDS_MANY: u64 = 2000;

/// A summary of the journal.
#[derive(Debug, Default)]
pub(super) struct JournalSummary {
    running: BTreeMap<String, usize>,
    failing: BTreeMap<String, FailingObject>,
    due: BTreeMap<String, Timestamp>,
    has_worlds: bool,
    records: u64,
    /// The reason the operator exited.
    pub(super) ended: Option<String>,
}

/// A summary that the journal fills while a plan reads it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedSummary(Arc<SummaryParts>);

#[derive(Debug, Default)]
struct SummaryParts {
    summary: Mutex<JournalSummary>,
    much_happened: Notify,
}

impl SharedSummary {
    pub(super) fn lock(&self) -> MutexGuard<'_, JournalSummary> {
        self.0.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the journal has grown by many records.
    pub(super) async fn much_happened(&self) {
        self.0.much_happened.notified().await;
    }
}

impl JournalSummary {
    /// Lets the journal fill the summary.
    pub(super) fn follow(journal: &Journal, summary: &SharedSummary) {
        let summary = summary.clone();
        journal.fold(move |record| {
            let mut observer = summary.lock();
            observer.observe(record);
            observer.records += 1;
            if observer.records.is_multiple_of(RECORDS_MANY) {
                summary.0.much_happened.notify_one();
            }
        });
    }

    fn observe(&mut self, record: &Record) {
        let id = |object: &Key| format!("{} {}", record.source, describe(object));
        match &record.entry {
            Entry::Started { object, .. } => *self.running.entry(id(object)).or_default() += 1,
            Entry::Settled { object, next, .. } => {
                self.end(&id(object));
                self.failing.remove(&id(object));
                self.due.remove(&id(object));
                if let RequestedNext::Requeue { after } = next
                    && let Ok(due) = record.at.checked_add(*after)
                {
                    self.due.insert(id(object), due);
                }
            }
            Entry::Failed { object, error, fault, .. } => {
                self.end(&id(object));
                let is_final = matches!(fault, FaultClass::Terminal);
                let failing = FailingObject { object: describe(object), error: error.clone(), is_final };
                self.failing.insert(id(object), failing);
            }
            Entry::Cancelled { object, .. } => self.end(&id(object)),
            Entry::Surveyed { .. } => self.has_worlds = true,
            Entry::Watched { resource, .. } if resource.starts_with("outside/") => self.has_worlds = true,
            _ => {}
        }
    }

    fn end(&mut self, id: &str) {
        if let Some(count) = self.running.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(id);
            }
        }
    }

    /// Discards the reconciles that were due before the change.
    pub(super) fn begin_phase(&mut self) {
        self.due.clear();
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the names of the running reconciles.
    pub(super) fn running(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    pub(super) fn failing(&self) -> Vec<FailingObject> {
        self.failing.values().cloned().collect()
    }

    /// Returns the objects reconciled in this phase that will be reconciled again.
    pub(super) fn due_later(&self, now: Timestamp) -> Vec<DueLater> {
        let due = self.due.iter().filter(|(_, at)| **at > now);
        let due = due.map(|(id, at)| DueLater {
            object: id.split_once(' ').map_or(id.as_str(), |(_, object)| object).to_owned(),
            seconds: at.duration_since(now).max(SignedDuration::ZERO).as_secs().unsigned_abs(),
        });
        due.collect()
    }

    pub(super) fn has_worlds(&self) -> bool {
        self.has_worlds
    }
}

/// Returns `shapes default/big`.
fn describe(key: &Key) -> String {
    let place = if key.namespace().is_empty() { String::new() } else { format!("{}/", key.namespace()) };
    format!("{} {place}{}", key.resource(), key.name())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record(entry: Entry) -> Record {
        Record { at: Timestamp::UNIX_EPOCH, source: "c".into(), entry }
    }

    #[test]
    fn the_last_word_about_an_object_counts() {
        let mut summary = JournalSummary::default();
        let object = Key::new("demo.dev", "pages", "default", "a");
        let started =
            || Entry::Started { object: object.clone(), causes: vec![], failures: 0, waited: Duration::ZERO };
        summary.observe(&record(started()));
        assert_eq!(summary.running(), ["c pages default/a"]);
        summary.observe(&record(Entry::Failed {
            object: object.clone(),
            error: "no".to_owned(),
            fault: FaultClass::Terminal,
            failures: 1,
            took: Duration::ZERO,
        }));
        assert!(!summary.is_running() && summary.failing()[0].is_final);
        summary.observe(&record(started()));
        let next = RequestedNext::Requeue { after: Duration::from_secs(60) };
        summary.observe(&record(Entry::Settled { object, next, took: Duration::ZERO }));
        assert_eq!(summary.failing(), []);
        let later = summary.due_later(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(10));
        assert_eq!(later, [DueLater { object: "pages default/a".to_owned(), seconds: 50 }]);
    }
}
