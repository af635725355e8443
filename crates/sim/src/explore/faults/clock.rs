//! The clock is wrong: the operator restarts on a machine with a wrong clock, or the clock is set forward or back while
//! the operator runs, either at rest or just before a write.

use crate::engine::{Point, PointKind};
use crate::fault::Fault;

/// Longer than leases and the usual intervals between polls; shorter than a schedule waits for its end.
const SKEW_SECONDS: [i64; 2] = [900, -900];

pub(super) fn faults_at(point: &Point) -> Vec<Fault> {
    let jumps = SKEW_SECONDS.into_iter().map(|seconds| Fault::JumpClock { seconds });
    let restarts = SKEW_SECONDS.into_iter().map(|seconds| Fault::RestartSkewed { seconds });
    match point.kind {
        PointKind::Settled => restarts.chain(jumps).collect(),
        PointKind::Write | PointKind::OutsideWrite => jumps.collect(),
        _ => Vec::new(),
    }
}
