//! Once everything that the user created is deleted, nothing that the operator created is left, in the cluster or
//! outside.

use crate::alarm::Alarm;
use crate::engine::{RunRecord, Setup};
use crate::state::{canonical_state, shown_key};

const HINT: &str = "give children an owner reference; for what is outside the cluster or in another namespace, set a \
                    finalizer before creating it";

pub(super) fn judge(setup: &Setup, record: &RunRecord) -> Option<Alarm> {
    if !record.alarms.is_empty() || !record.cleanup_end.is_judged || !record.cleanup_end.is_reached {
        return None;
    }
    let before = canonical_state(&setup.template.snapshot, setup.template.start());
    let after = canonical_state(&record.cleanup_end.snapshot, setup.template.start());
    let left = after.keys().find(|key| !before.contains_key(*key));
    if let Some(left) = left {
        let is_stuck = record.cleanup_end.snapshot.iter().any(|entry| {
            shown_key(&entry.key) == *left
                && memchr::memmem::find(&entry.bytes, b"\"deletionTimestamp\"").is_some()
        });
        let how = if is_stuck { "is never removed: it still has a finalizer" } else { "is left" };
        let text = format!("{left} {how} after everything was deleted");
        return Some(Alarm::new("no leak", left, text).hint(HINT));
    }
    let at_start = record.rests.first().map(|rest| &rest.outside);
    let made_before = setup.outside.as_ref().map(|make| ((make)().describe)());
    match made_before {
        Some(initial) if initial != record.cleanup_end.outside && at_start.is_some() => {
            let text = format!(
                "something outside is left after everything was deleted: {} (initially {initial})",
                record.cleanup_end.outside
            );
            Some(Alarm::new("no leak", "outside", text).hint(HINT))
        }
        _ => None,
    }
}
