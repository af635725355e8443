//! The operator keeps the fields that others wrote into an object. The exception is a condition in a plain list that
//! the operator applies: such a list has one owner, and applying it replaces it.

use serde_json::Value;

use crate::alarm::Alarm;
use crate::engine::{ForeignMark, RunRecord};
use crate::state::{path_of_shown, shown_key};

const HINT: &str = "an update replaces the whole object, and a merge patch whole lists: use server-side apply, patch only your own fields, or \
     send the resourceVersion you read";

pub(super) fn judge(record: &RunRecord) -> Option<Alarm> {
    record.foreign_marks.iter().find_map(|ForeignMark { path, uid, what, mark, is_in_atomic_list }| {
        // The object must still be the one that was marked.
        let lost = record.changes.iter().find(|change| {
            let (Some(old), Some(new)) = (&change.event.old, &change.event.new) else { return false };
            let has = |bytes: &[u8]| memchr::memmem::find(bytes, mark.as_bytes()).is_some();
            let is_meant = path_of_shown(&change.after, &shown_key(&change.event.key)).as_ref() == Some(path);
            has(&old.bytes)
                && !has(&new.bytes)
                && is_meant
                && crate::state::uid_of(new) == *uid
                && !(*is_in_atomic_list && has_applied_conditions(&new.bytes))
        })?;
        let name = shown_key(&lost.event.key);
        let text = format!("the {what} {mark}, which somebody else wrote into {name}, is gone");
        Some(Alarm::new("foreign fields kept", &name, text).hint(HINT))
    })
}

/// Returns whether the conditions of a stored object were applied.
fn has_applied_conditions(bytes: &[u8]) -> bool {
    let object: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let managers = object["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|manager| {
        manager["operation"] == "Apply" && !manager["fieldsV1"]["f:status"]["f:conditions"].is_null()
    })
}
