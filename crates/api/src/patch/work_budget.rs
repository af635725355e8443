//! Limits the work of one patch: a small body can cause a lot of it by naming the same large list repeatedly.
//!
//! **Invariant:** every loop over parts of the object that a part of the patch can repeat spends a step for each
//! iteration, so a patch finishes after at most [`STEPS_MAX`] steps, if necessary with an error.

use std::cell::Cell;

use crate::status::Status;

/// The maximum number of steps to apply one patch: half a second if they are of the slowest kind. Merging the longest
/// list that fits into an object (half a million elements) takes about two million.
const STEPS_MAX: usize = 4_000_000;

/// The steps that are left.
#[derive(Debug)]
pub(crate) struct WorkBudget(Cell<usize>);

impl Default for WorkBudget {
    fn default() -> Self {
        Self(Cell::new(STEPS_MAX))
    }
}

impl WorkBudget {
    /// Takes steps from the budget.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), Status> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or_default());
        left.map(drop).ok_or_else(|| {
            Status::too_much_work(
                "the patch changes the same large list or map too often; send fewer changes at a time",
            )
        })
    }
}
