//! At rest nothing is written for a virtual day, not even by a newly started operator that looks at everything again.

use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

const HINT: &str = "compare before you write, and leave out of the comparison what changes by itself: times, counters, \
                    fields the server fills in";

/// The maximum number of equal requests in a day, for each object of the user. A newly started operator may apply an
/// object once, because it does not remember earlier applies, and once per resync (10 h); a request every five hours
/// exceeds the limit. Several objects of the user may share the applied object.
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
