//! A process of the operator: starts it, and follows its journal.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_core::journal::{Entry, FaultClass, Record};
use homeostat_core::{Clock, Entropy, Key, Revision};
use homeostat_runtime::{CancellationToken, Error, Operator};
use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::parking::ProcessNumber;
use super::process_clock::ProcessClock;
use super::wire::Wire;

/// The state of a process according to its journal.
#[derive(Debug, Default)]
pub(crate) struct JournalSummary {
    /// The outcome of the last reconcile of each object, and its position among the outcomes of all processes.
    pub(crate) outcomes: BTreeMap<String, (u64, ReconcileOutcome)>,
    /// Counts the outcomes of all processes of a schedule.
    order: Arc<AtomicU64>,
    pub(crate) panics: Vec<String>,
    /// All records, for the timeline.
    pub(crate) records: Vec<Record>,
    keeps_records: bool,
}

/// The outcome of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileOutcome {
    Settled,
    Failed(String),
    /// It failed, and is not tried again until the object changes.
    GivenUp(String),
}

impl JournalSummary {
    fn note_outcome(&mut self, object: &Key, outcome: ReconcileOutcome) {
        let place = self.order.fetch_add(1, Ordering::Relaxed);
        self.outcomes.insert(object.to_string(), (place, outcome));
    }

    fn observe(&mut self, record: &Record) {
        match &record.entry {
            Entry::Failed { object, error, fault, .. } => {
                if let FaultClass::Panic { .. } = fault {
                    self.panics.push(format!("{object}: {error}"));
                }
                let outcome = match fault {
                    FaultClass::Terminal => ReconcileOutcome::GivenUp(error.clone()),
                    FaultClass::Retry { .. } | FaultClass::Panic { .. } => {
                        ReconcileOutcome::Failed(error.clone())
                    }
                };
                self.note_outcome(object, outcome);
            }
            Entry::Settled { object, .. } => {
                self.note_outcome(object, ReconcileOutcome::Settled);
            }
            Entry::Panicked { object, function, message } => {
                self.panics.push(format!("{function} of {object}: {message}"));
            }
            _ => {}
        }
        if self.keeps_records {
            self.records.push(record.clone());
        }
    }
}

/// Which operator a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessRole {
    /// A replica of the operator under test.
    Tested(u32),
    /// An operator that runs beside it, by its number.
    Beside(usize),
}

/// A running operator.
pub(crate) struct Process {
    pub(crate) number: ProcessNumber,
    pub(crate) role: ProcessRole,
    pub(crate) task: JoinHandle<Result<(), Error>>,
    pub(crate) journal: Arc<Mutex<JournalSummary>>,
    /// Uids of objects this process was shown.
    pub(crate) known: HashSet<String>,
    /// The revisions of objects in its caches, according to its journal.
    pub(crate) cached: BTreeMap<String, Revision>,
    pub(crate) frozen_until: Option<Instant>,
    /// Sets its clock, in schedules that do so.
    pub(crate) clock: Option<ProcessClock>,
    /// Its first lists show this state.
    pub(crate) old: Option<Revision>,
    /// If set, only lists of this resource show it.
    pub(crate) old_only: Option<String>,
    /// Resources of which it has been shown the old state.
    pub(crate) old_shown: HashSet<String>,
}

impl Process {
    /// Starts an operator.
    pub(crate) fn start(
        (wire, role): (Wire, ProcessRole),
        operator: Operator,
        (clock, entropy): (Clock, Entropy),
        (keeps_records, order): (bool, Arc<AtomicU64>),
    ) -> Self {
        let operator = operator.time_and_chance(clock, entropy).without_admin().without_rights_review();
        let journal =
            Arc::new(Mutex::new(JournalSummary { order, keeps_records, ..JournalSummary::default() }));
        let listener = Arc::clone(&journal);
        operator.journal().fold(move |record| {
            listener.lock().unwrap_or_else(PoisonError::into_inner).observe(record);
        });
        let number = wire.process;
        let client = Client::new(wire, "default");
        let task = tokio::spawn(operator.run_on(client, CancellationToken::new()));
        Self {
            number,
            role,
            task,
            journal,
            known: HashSet::new(),
            cached: BTreeMap::new(),
            frozen_until: None,
            clock: None,
            old: None,
            old_only: None,
            old_shown: HashSet::new(),
        }
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, JournalSummary> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it runs the operator under test.
    pub(crate) fn is_tested(&self) -> bool {
        matches!(self.role, ProcessRole::Tested(_))
    }

    /// Returns whether it is frozen.
    pub(crate) fn is_frozen(&self, now: Instant) -> bool {
        self.frozen_until.is_some_and(|until| now < until)
    }
}
