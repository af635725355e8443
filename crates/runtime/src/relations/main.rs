//! The object itself: created, changed, deleted.
//!
//! An edit (spec, labels, annotations, deletion) is more than a change: it overrides backoff and terminal faults. The
//! object's own write coming back is a change and never an edit, so a failing reconciler that writes does not run in
//! circles. Only what is known to be that write counts as it (`cache::delta` says how). A watch may show it before its
//! answer is here, so a change that is no edit counts as that while a write is under way.
//! An object that does not decode is queued as well: nothing can be done with it, but its status can say so.

use homeostat_core::journal::{Cause, Change, Source};

use super::admits;
use crate::cache::{ObjectCache, ObjectDelta};
use crate::controller_queue::ControllerQueue;
use crate::predicate::ChangeTest;
use crate::queue::Urgency;

pub(crate) fn follow_main_kind(cache: &ObjectCache, queue: &ControllerQueue, predicate: Option<ChangeTest>) {
    let of_quarantined = queue.clone();
    cache.subscribe_quarantined(move |key, is_list| {
        let (cause, urgency) =
            if is_list { (Cause::Listed, Urgency::Background) } else { (Cause::Edited, Urgency::Edit) };
        of_quarantined.add(key, cause, urgency);
    });
    let queue = queue.clone();
    cache.subscribe(move |delta| {
        if admits(predicate.as_ref(), delta, &queue) {
            let (cause, urgency) = classify(delta, queue.source());
            queue.add(&delta.key, cause, urgency);
        }
    });
}

fn classify(delta: &ObjectDelta, source: &Source) -> (Cause, Urgency) {
    match delta.change {
        Change::Listed => (Cause::Listed, Urgency::Background),
        Change::Added => (Cause::Created, Urgency::Edit),
        Change::Deleted | Change::Missed => (Cause::Deleted, Urgency::Edit),
        Change::Modified if delta.is_echo_for(source, &delta.key) => (Cause::Changed, Urgency::Echo),
        Change::Modified if is_edit(delta) => (Cause::Edited, Urgency::Edit),
        Change::Modified if delta.is_while_writing_for(source, &delta.key) => (Cause::Changed, Urgency::Echo),
        Change::Modified => (Cause::Changed, Urgency::Event),
    }
}

fn is_edit(delta: &ObjectDelta) -> bool {
    let (Some(old), Some(new)) = (&delta.old, &delta.new) else { return true };
    let (old, new) = (old.meta(), new.meta());
    // Kinds without generations do not tell status from spec; any foreign change may be an edit.
    new.generation.is_none()
        || old.generation != new.generation
        || old.uid != new.uid
        || old.labels != new.labels
        || old.annotations != new.annotations
        || old.deletion_timestamp != new.deletion_timestamp
}
