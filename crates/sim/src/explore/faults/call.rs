//! A call fails, with or without effect, or another client is faster. Conflicts are always real: a foreign writer
//! changes the object between the read and the write.

use crate::engine::{Point, PointKind};
use crate::fault::Fault;

/// Longer than the duration of a lease.
pub(crate) const FREEZE_SECONDS: u64 = 40;

/// Long enough for everything else to happen first, and shorter than the timeouts of clients.
const SLOW_SECONDS: u64 = 1;

pub(super) fn faults_at(point: &Point) -> Vec<Fault> {
    match point.kind {
        PointKind::Write => vec![
            Fault::LoseAnswer,
            Fault::Refuse { code: 500 },
            Fault::ForeignWrite,
            Fault::Refuse { code: 429 },
            Fault::LoseRequest,
            Fault::RefuseAfter { code: 504 },
            Fault::Slow { seconds: SLOW_SECONDS },
            Fault::Freeze { seconds: FREEZE_SECONDS },
        ],
        PointKind::Read => {
            vec![Fault::Refuse { code: 500 }, Fault::LoseRequest, Fault::Slow { seconds: SLOW_SECONDS }]
        }
        PointKind::ReadAnyVersion => vec![
            Fault::StaleRead { changes: 1 },
            Fault::StaleRead { changes: 2 },
            Fault::Refuse { code: 500 },
            Fault::LoseRequest,
            Fault::Slow { seconds: SLOW_SECONDS },
        ],
        PointKind::OutsideWrite => {
            vec![
                Fault::LoseAnswer,
                Fault::Refuse { code: 500 },
                Fault::Twice,
                Fault::Freeze { seconds: FREEZE_SECONDS },
            ]
        }
        PointKind::OutsideRead => {
            vec![
                Fault::Refuse { code: 500 },
                Fault::StaleOutside { changes: 1 },
                Fault::StaleOutside { changes: 2 },
            ]
        }
        PointKind::OpenWatch => vec![Fault::Refuse { code: 500 }, Fault::LoseRequest],
        PointKind::Frame | PointKind::Settled => Vec::new(),
    }
}
