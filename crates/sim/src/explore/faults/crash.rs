//! The operator crashes before or after every call. One crash per read is enough, because a read changes nothing.

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
