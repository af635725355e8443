//! The operator dies before or after anything it does. A read is worth one crash: nothing changed in between.

use crate::engine::{Point, PointKind};
use crate::fault::Fault;

pub(super) fn faults_at(point: &Point) -> Vec<Fault> {
    match point.kind {
        PointKind::Write | PointKind::OutsideWrite => vec![Fault::CrashAfter, Fault::CrashBefore],
        PointKind::Read | PointKind::ReadAnyVersion | PointKind::OutsideRead | PointKind::Settled => {
            vec![Fault::CrashAfter]
        }
        PointKind::OpenWatch | PointKind::Frame => Vec::new(),
    }
}
