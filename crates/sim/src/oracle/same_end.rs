//! Whatever went wrong, the end is the one of the schedule in which nothing did.

use super::{Reference, ReferenceEnd};
use crate::alarm::Alarm;
use crate::engine::{RunRecord, SettledEnd, Setup};

const MISSING: &str = "a run that was interrupted is not taken up again: let each run look at every object it wants, not at \
                       the first one only";
const SURPLUS: &str = "something is made again although it is there, or is not taken away: derive names from the owner, and \
                       look for what is no longer wanted in every run";
const LEFT: &str =
    "record what you are about to make outside before you make it, or find it again by a name of yours";
const OTHER: &str = "what is done next is decided by something that an earlier run has changed already: decide by the last \
                     thing that is written";

pub(super) fn judge(setup: &Setup, reference: &Reference, record: &RunRecord) -> Option<Alarm> {
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
    let text = format!("the end differs from the undisturbed one {when}:\n  {}", lines.join("\n  "));
    Some(Alarm::new("same end", subject, text).hint(hint))
}
