//! At rest nothing is written, also when an operator that was just started looks at everything again, for a virtual day.

use crate::alarm::Alarm;
use crate::engine::RunRecord;

const HINT: &str = "compare before you write, and leave out of the comparison what changes by itself: times, counters, \
                    fields the server fills in";

/// An operator that was just started may apply each object once, because it does not remember that it did before, and again
/// with every resync (10 h). More often than every five hours is more often than that.
const VAIN_MAX: u32 = 4;

pub(super) fn judge(record: &RunRecord) -> Option<Alarm> {
    if let Some(first) = record.writes_at_rest.first() {
        let count = record.writes_at_rest.len();
        let text = format!("{count} write(s) while nothing had changed, the first is \"{first}\"");
        return Some(Alarm::new("quiet at rest", first, text).hint(HINT));
    }
    let (name, count) = record.vain_writes_at_rest.iter().find(|(_, count)| **count > VAIN_MAX)?;
    let text = format!("\"{name}\" is asked for {count} times in a day, and changes nothing");
    Some(Alarm::new("quiet at rest", name, text).hint(HINT))
}
