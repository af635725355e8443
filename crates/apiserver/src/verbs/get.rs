//! Get: the stored bytes.

use homeostat_core::Revision;

use super::{Answer, Call};
use crate::status::Status;

/// Reads one object.
pub(super) fn get(call: &Call) -> Result<Answer, Status> {
    at_least(call, call.query.get("resourceVersion"))?;
    let snapshot = call.backend.store.snapshot();
    let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
    Answer::entry(call, 200, entry)
}

/// Every read shows the newest state, so any past revision is satisfied; one that has not happened is refused.
pub(super) fn at_least(call: &Call, asked: &str) -> Result<(), Status> {
    if asked.is_empty() {
        return Ok(());
    }
    let asked = asked.parse::<Revision>().map_err(|_| Status::unclassified(not_a_revision(asked)))?;
    let current = call.backend.store.snapshot().revision();
    if asked > current { Err(too_large(asked, current)) } else { Ok(()) }
}

/// What Kubernetes says to a resourceVersion that is no number.
pub(super) fn not_a_revision(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

/// The refusal of a revision that has not happened yet.
pub(super) fn too_large(asked: Revision, current: Revision) -> Status {
    Status::timeout(format!("Too large resource version: {asked}, current: {current}"))
        .caused("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1)
}
