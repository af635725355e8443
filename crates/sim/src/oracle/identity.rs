//! A process deletes, and writes the status of, only objects that it has seen: another object may have taken over the
//! name in the meantime.

use super::ReferenceRun;
use super::justified::is_there;
use crate::alarm::Alarm;
use crate::engine::{Actor, RunRecord};
use crate::state::shown_key;

const HINT: &str = "another object of the same name took its place: send the uid you read as a precondition";

pub(super) fn judge(reference: &ReferenceRun, record: &RunRecord) -> Option<Alarm> {
    let change = record.changes.iter().find(|change| {
        let is_by_operator = matches!(change.actor, Actor::Operator(_));
        let is_namesake = change.event.new.is_none() || change.subresource.as_deref() == Some("status");
        let is_blind = is_by_operator && is_namesake && !change.is_known && !change.is_guarded;
        // Deleting an unwanted object does no harm, whether or not it is the object that was seen.
        let is_wanted =
            || change.event.new.is_some() || is_there(reference, &shown_key(&change.event.key), change.step);
        is_blind && is_wanted()
    })?;
    let name = shown_key(&change.event.key);
    let verb = if change.event.new.is_none() { "deletes" } else { "writes the status of" };
    let text =
        format!("the operator {verb} {name}, an object it has never seen: it knows another of that name");
    Some(Alarm::new("same object", &name, text).hint(HINT))
}
