//! The rights that were seen to be needed are enough: the operator that has no others comes to the same end.

use super::{Reference, same_end};
use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

/// Judges the undisturbed schedule under the least rights.
pub(crate) fn judge_rights(setup: &Setup, reference: &Reference, record: &RunRecord) -> Option<Alarm> {
    let alarm = same_end::judge(setup, reference, record)?;
    Some(Alarm { oracle: "least rights".to_owned(), ..alarm })
}
