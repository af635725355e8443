//! At rest nothing is written for a virtual day, not even by a newly started operator that looks at everything again.

use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

const HINT: &str = "compare before you write, and leave out of the comparison what changes by itself: times, counters, \
                    fields the server fills in";

/// The number of requests in a day, for each object of the user, that is too many. A newly started operator may apply each object
/// once, because it does not remember earlier applies, and once per resync (10 h). Every five hours is more often than that. Several
/// objects of the user may share what is applied.
const VAIN_MAX: u32 = 4;

pub(super) fn judge(setup: &Setup, record: &RunRecord) -> Option<Alarm> {
    if let Some(first) = record.writes_at_rest.first() {
        let count = record.writes_at_rest.len();
        let text = format!("{count} write(s) while nothing had changed, the first is \"{first}\"");
        return Some(Alarm::new("quiet at rest", first, text).hint(HINT));
    }
    let objects = u32::try_from(setup.cleanup().len()).unwrap_or(u32::MAX).max(1);
    let most = VAIN_MAX.saturating_mul(objects);
    let (name, count) = record.vain_writes_at_rest.iter().find(|(_, count)| **count > most)?;
    let text = format!("\"{name}\" is requested {count} times in a day and changes nothing");
    Some(Alarm::new("quiet at rest", name, text).hint(HINT))
}
