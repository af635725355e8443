//! Everything comes to rest: writes stop, and no object keeps failing.

use super::{ReferenceEnd, ReferenceRun};
use crate::alarm::Alarm;
use crate::engine::{RunRecord, SettledEnd};

const LOOP_HINT: &str = "something changes in every run: a time, a random name, or two writers that undo each other; write \
                         only what differs, and let one writer own each field";
const STUCK_HINT: &str = "the operator depends on something that is gone, or does not notice what an interrupted run left \
                          behind; make each run start from the actual state";

pub(super) fn judge(record: &RunRecord, reference: Option<&ReferenceRun>) -> Option<Alarm> {
    let ends = [
        (&record.scenario_end, reference.map(|reference| &reference.scenario), "the last step"),
        (&record.cleanup_end, reference.map(|reference| &reference.cleanup), "everything was deleted"),
    ];
    if !record.alarms.is_empty() {
        return None;
    }
    ends.into_iter().find_map(|(end, expected, when)| judge_end(record, end, expected, when))
}

fn judge_end(
    record: &RunRecord,
    end: &SettledEnd,
    expected: Option<&ReferenceEnd>,
    when: &str,
) -> Option<Alarm> {
    if !end.is_judged {
        return None;
    }
    if !end.is_reached {
        let busy = record.changes.last().map(|change| crate::state::shown_key(&change.event.key));
        let text = format!(
            "still writing three hours after {when}; the last change was of {}",
            busy.clone().unwrap_or_default()
        );
        return Some(Alarm::new("converges", &busy.unwrap_or_default(), text).hint(LOOP_HINT));
    }
    // Without a fault, the operator gives up only on a spec that makes no sense, which is the user's doing.
    let is_new = |object: &&String| match expected {
        Some(expected) => !expected.failing.contains(*object),
        None => !end.given_up.contains(*object),
    };
    let object = end.failing.keys().find(is_new)?;
    let text = format!("{object} still fails long after {when}: {}", end.failing[object]);
    Some(Alarm::new("converges", object, text).hint(STUCK_HINT))
}
