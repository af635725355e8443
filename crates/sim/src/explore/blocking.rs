//! Detects calls that block the thread in real time. A busy machine can also make a thread wait, so a suspicion is
//! confirmed by running the same schedule again.

use super::Explorer;
use crate::alarm::Alarm;
use crate::engine::{BLOCKED_MIN, RunRecord};
use crate::trace::Deviation;

/// The number of further runs that must all be blocked.
const CONFIRMATIONS: usize = 2;

const HINT: &str = "wait with tokio::time::sleep, and give what is outside the cluster to the simulator with \
                    Simulation::with_outside";

/// Returns the alarm about a schedule that was blocked, if it is blocked every time.
pub(super) fn confirm(explorer: &Explorer<'_>, plan: &[Deviation], record: &RunRecord) -> Option<Alarm> {
    if record.blocked < BLOCKED_MIN {
        return None;
    }
    let mut after = None;
    for _ in 0..CONFIRMATIONS {
        let again = explorer.record_of(plan, true);
        if again.blocked < BLOCKED_MIN {
            return None;
        }
        after = again.blocked_after.or(after);
    }
    let place = after.map(|line| format!(", after \"{line}\"")).unwrap_or_default();
    let text = format!(
        "the operator blocks its thread{place}: a call that waits in real time (std::thread::sleep, a file, a blocking client \
         or lock)"
    );
    Some(Alarm::new("deterministic", "operator", text).hint(HINT))
}
