//! Caches lag and watches break: the operator does not yet know the current state of the cluster.

use crate::engine::{Point, PointKind};
use crate::fault::{DELAY_SECONDS, Fault};

/// Long enough for several attempts to watch, with the usual pauses between them.
const EXPIRING_SECONDS: u64 = 4;

pub(super) fn faults_at(point: &Point) -> Vec<Fault> {
    match point.kind {
        PointKind::Frame => vec![
            Fault::Delay { seconds: DELAY_SECONDS },
            Fault::Hold { writes: 1 },
            Fault::Hold { writes: 2 },
            Fault::Coalesce,
            Fault::Cut,
            Fault::Expire,
            Fault::ExpireAgain { seconds: EXPIRING_SECONDS },
        ],
        _ => Vec::new(),
    }
}
