//! Triggers reconciles when the object itself is created, changed or deleted.
//!
//! An edit (spec, labels, annotations, deletion) is more than a change: it overrides backoff and terminal faults. An
//! echo of the object's own write is a change and never an edit, so a failing reconciler that writes does not loop.
//! Only a change that is known to be such a write counts as an echo (`cache::object_delta` explains how). A watch may
//! show the write before its response arrives, so while a write is in progress a change that is not an edit counts as
//! that write. An object that cannot be decoded is queued as well: it cannot be reconciled, but its status can say so.

use homeostat_core::journal::{Cause, Change, Source};

use super::passes;
use crate::cache::{ObjectCache, ObjectDelta, ShownBy};
use crate::queue::Urgency;
use crate::relations::predicate::ChangeTest;
use crate::workers::controller_queue::ControllerQueue;

pub(crate) fn follow_main_kind(cache: &ObjectCache, queue: &ControllerQueue, predicate: Option<ChangeTest>) {
    let of_quarantined = queue.clone();
    cache.subscribe_quarantined(move |key, by| {
        let (cause, urgency) = match by {
            ShownBy::List => (Cause::Listed, Urgency::Background),
            ShownBy::Watch => (Cause::Edited, Urgency::Edit),
        };
        of_quarantined.add(key, cause, urgency);
    });
    let queue = queue.clone();
    cache.subscribe(move |delta| {
        if passes(predicate.as_ref(), delta, &queue) {
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
    // Kinds without generations do not distinguish status from spec; any change made by others may be an edit.
    new.generation.is_none()
        || old.generation != new.generation
        || old.uid != new.uid
        || old.labels != new.labels
        || old.annotations != new.annotations
        || old.deletion_timestamp != new.deletion_timestamp
}
