//! Connects the journal of an operator in this process to the server's history, because the two crates do not know each
//! other.

use homeostat_apiserver::write_history::JournalSource;
use homeostat_core::Key;
use homeostat_core::write_history::OperatorJournal;
use homeostat_runtime::Journal;

/// The journal of an operator in this process.
pub(super) struct LocalJournal {
    pub(super) operator: String,
    pub(super) journal: Journal,
}

impl JournalSource for LocalJournal {
    fn about(&self, object: &Key) -> OperatorJournal {
        let reach = self.journal.reach();
        OperatorJournal {
            operator: self.operator.clone(),
            records: self.journal.about(object),
            since: reach.since.filter(|_| reach.dropped > 0),
            dropped: reach.dropped,
            started: Some(reach.started),
        }
    }
}
