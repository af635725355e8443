//! Every schedule ends in the same state as the one without faults.

use super::{ReferenceEnd, ReferenceRun};
use crate::alarm::Alarm;
use crate::engine::{RunRecord, SettledEnd, Setup};

const MISSING: &str = "an interrupted run is not completed later: make each run check every object it wants, not only the \
                       first one";
const SURPLUS: &str = "something is created again although it exists, or is not removed: derive names from the owner, and \
                       look for what is no longer wanted in every run";
const LEFT: &str = "record what you are about to create outside before you create it, or find it again by a name of your own";
const OTHER: &str = "the next action is decided by something that an earlier run has already changed: decide by whatever \
                     is written last";

pub(super) fn judge(setup: &Setup, reference: &ReferenceRun, record: &RunRecord) -> Option<Alarm> {
    if !record.alarms.is_empty() {
        return None;
    }
    judge_end(setup, &reference.scenario, &record.scenario_end, "after the last step")
        .or_else(|| judge_end(setup, &reference.cleanup, &record.cleanup_end, "after everything was deleted"))
}

fn judge_end(setup: &Setup, expected: &ReferenceEnd, end: &SettledEnd, when: &str) -> Option<Alarm> {
    if !end.is_judged || !end.is_reached {
        return None;
    }
    let differences = expected.known_differences(setup, end);
    let (subject, _) = differences.first()?;
    let hint = match differences.first().map(|(subject, text)| (&**subject, &**text)) {
        Some(("outside", _)) => LEFT,
        Some((_, "is missing")) => MISSING,
        Some((_, "should not be there")) => SURPLUS,
        _ => OTHER,
    };
    let lines: Vec<String> =
        differences.iter().map(|(subject, text)| format!("{subject}: {text}")).take(6).collect();
    let text = format!("the end differs from the one without faults {when}:\n  {}", lines.join("\n  "));
    Some(Alarm::new("same end", subject, text).hint(hint))
}
