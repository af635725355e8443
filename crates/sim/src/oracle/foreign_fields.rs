//! What somebody else wrote into an object stays there.

use crate::alarm::Alarm;
use crate::engine::{ForeignMark, RunRecord};
use crate::state::{path_of_shown, shown_key};

const HINT: &str =
    "an update replaces the whole object: use server-side apply, or patch only your own fields";

pub(super) fn judge(record: &RunRecord) -> Option<Alarm> {
    record.foreign_marks.iter().find_map(|ForeignMark { path, uid, what, mark }| {
        // The object must still be the one that was marked.
        let lost = record.changes.iter().find(|change| {
            let (Some(old), Some(new)) = (&change.event.old, &change.event.new) else { return false };
            let has = |bytes: &[u8]| memchr::memmem::find(bytes, mark.as_bytes()).is_some();
            let is_meant = path_of_shown(&change.after, &shown_key(&change.event.key)).as_ref() == Some(path);
            has(&old.bytes) && !has(&new.bytes) && is_meant && crate::state::uid_of(new) == *uid
        })?;
        let name = shown_key(&lost.event.key);
        let text = format!("the {what} {mark}, which somebody else wrote into {name}, is gone");
        Some(Alarm::new("foreign fields kept", &name, text).hint(HINT))
    })
}
