//! Records writes in the journal: the verb, the object it was for, and the result.

use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_core::{FieldDiff, Key};

use crate::error::Error;
use crate::fence::TenureClaim;
use crate::shared::ControllerShared;

impl ControllerShared {
    /// Refuses a write for this object if the tenure under which its run began has ended.
    pub(super) fn refuse_if_deposed(
        &self,
        claim: &TenureClaim,
        object: &Key,
        verb: Verb,
        target: &Key,
    ) -> Result<(), Error> {
        claim
            .refuse_if_deposed(target)
            .inspect_err(|_| self.record_write(object, verb, target, WriteOutcome::Fenced))
    }

    /// Records the result of a write for this object.
    pub(super) fn record_write(&self, object: &Key, verb: Verb, target: &Key, outcome: WriteOutcome) {
        self.note_diff(object, verb, target, outcome, FieldDiff::default());
    }

    /// Records the result of a write for this object, and the changes it made.
    pub(super) fn note_diff(
        &self,
        object: &Key,
        verb: Verb,
        target: &Key,
        outcome: WriteOutcome,
        diff: FieldDiff,
    ) {
        let (object, target) = (object.clone(), target.clone());
        self.operator.journal.record(&self.source, Entry::Wrote { object, verb, target, outcome, diff });
    }

    /// Records a write that failed.
    pub(super) fn noting<T>(
        &self,
        object: &Key,
        verb: Verb,
        target: &Key,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        if let Err(error) = &answer {
            self.record_write(object, verb, target, WriteOutcome::Failed { error: error.to_string() });
        }
        answer
    }
}
