//! The recorded rights are sufficient: an operator with no others reaches the same end.

use super::{ReferenceRun, same_end};
use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};

/// Judges the undisturbed schedule under the least rights.
pub(crate) fn judge_rights(setup: &Setup, reference: &ReferenceRun, record: &RunRecord) -> Option<Alarm> {
    let alarm = same_end::judge(setup, reference, record)?;
    Some(Alarm { oracle: "least rights".to_owned(), ..alarm })
}
