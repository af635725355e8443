//! Somebody changes the world outside. Only an operator that looks at it by itself, at least every hour, can notice; no other
//! is expected to.

use crate::engine::{Point, PointKind, RunRecord, Setup};
use crate::fault::Fault;

/// The number of reads in a rest of a day from which on an operator counts as polling.
const READS_MIN: u64 = 24;

/// How many changes are undone.
const BACK: [usize; 2] = [1, 2];

pub(super) fn faults_at(setup: &Setup, reference: &RunRecord, point: &Point) -> Vec<Fault> {
    if point.kind != PointKind::Settled || reference.outside_reads_at_rest < READS_MIN {
        return Vec::new();
    }
    // Undoing a deletion would leave something that no object wants, and that no operator could remove.
    if (0..point.step).filter_map(|done| setup.step(done)).any(|step| step.is_delete()) {
        return Vec::new();
    }
    BACK.into_iter().map(|changes| Fault::Drift { changes }).collect()
}
