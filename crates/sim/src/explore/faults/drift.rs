//! Somebody changes the state outside the cluster. Only an operator that polls at least every hour can notice this, so
//! the fault is not injected for others.

use crate::engine::{Point, PointKind, RunRecord, Setup};
use crate::fault::Fault;

/// The minimum number of reads during a day of rest for an operator to count as polling.
const READS_MIN: u64 = 24;

/// How many changes are undone.
const BACK: [usize; 2] = [1, 2];

pub(super) fn faults_at(setup: &Setup, reference: &RunRecord, point: &Point) -> Vec<Fault> {
    if point.kind != PointKind::Settled || reference.outside_reads_at_rest < READS_MIN {
        return Vec::new();
    }
    // Undoing a deletion would leave a resource that no object wants and no operator could remove.
    if (0..point.step).filter_map(|done| setup.step(done)).any(|step| step.is_delete()) {
        return Vec::new();
    }
    BACK.into_iter().map(|changes| Fault::Drift { changes }).collect()
}
