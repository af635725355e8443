//! The work one patch may cause: a small body can ask for much of it, by naming the same large list again and again.
//!
//! **Invariant:** every loop over parts of the object that a part of the patch can start anew spends a step for each turn, so
//! a patch ends, with a refusal if need be, after [`STEPS_MAX`] of them.

use std::cell::Cell;

use crate::status::Status;

/// Steps of one application of a patch: half a second's of the slowest sort. Merging the longest list that fits an object
/// (half a million elements) takes some two million.
const STEPS_MAX: usize = 4_000_000;

/// What is left of the work a patch may cause.
#[derive(Debug)]
pub(crate) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Self {
        Self(Cell::new(STEPS_MAX))
    }
}

impl Work {
    /// Spends some steps.
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
