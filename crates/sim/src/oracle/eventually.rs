//! The user's `eventually` conditions hold at rest after the last step, and keep holding.

use crate::alarm::Alarm;
use crate::cluster::Cluster;
use crate::engine::{RunRecord, SettledEnd, Setup};

/// Returns the first condition that an end does not meet.
pub(super) fn unmet(setup: &Setup, end: &SettledEnd) -> Option<usize> {
    let cluster = Cluster::new(end.snapshot.clone(), setup.template.born, end.outside.clone());
    setup.eventually.iter().position(|condition| !condition(&cluster))
}

pub(super) fn judge(setup: &Setup, record: &RunRecord) -> Option<Alarm> {
    if !record.scenario_end.is_judged || !record.scenario_end.is_reached {
        return None;
    }
    let at = unmet(setup, &record.scenario_end)? + 1;
    let text = format!("condition {at} of `eventually` does not hold when everything has come to rest");
    Some(Alarm::new("eventually", &format!("condition {at}"), text))
}
