//! The operator restarts on a machine whose clock is wrong. A clock that jumps ahead while the process runs is what a frozen
//! process sees.

use crate::engine::{Point, PointKind};
use crate::fault::Fault;

/// Longer than leases and the usual times between polls; shorter than what a schedule waits for its end.
const SKEW_SECONDS: i64 = 900;

pub(super) fn faults_at(point: &Point) -> Vec<Fault> {
    match point.kind {
        PointKind::Settled => [SKEW_SECONDS, -SKEW_SECONDS]
            .into_iter()
            .map(|seconds| Fault::RestartSkewed { seconds })
            .collect(),
        _ => Vec::new(),
    }
}
