//! The caches lag, and watches break: what is true of the cluster is not yet known to the operator.

use crate::engine::{Point, PointKind};
use crate::fault::{DELAY_SECONDS, Fault};

/// Long enough for several watches with the usual pauses between them.
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
