//! Implements get: returns the stored bytes.

use homeostat_api::status::Status;
use homeostat_core::Revision;

use super::{Answer, AuthorizedRequest};

/// Reads one object.
pub(super) async fn get(call: &AuthorizedRequest) -> Result<Answer, Status> {
    check_revision_reached(call, call.query.get("resourceVersion"))?;
    let snapshot = call.backend.store.snapshot();
    let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
    Answer::entry(call, 200, &call.converted(entry).await?)
}

/// Checks the requested revision. Every read shows the newest state, so any past revision is satisfied; a future one
/// is refused.
pub(super) fn check_revision_reached(call: &AuthorizedRequest, asked: &str) -> Result<(), Status> {
    if asked.is_empty() {
        return Ok(());
    }
    let asked = parse_revision(asked).map_err(Status::unclassified)?;
    let current = call.backend.store.snapshot().revision();
    if asked > current { Err(revision_too_large(asked, current)) } else { Ok(()) }
}

/// Parses a resourceVersion: digits and nothing else, not even a sign.
///
/// # Errors
/// Returns Kubernetes' message for a string that is not a number.
pub(super) fn parse_revision(text: &str) -> Result<Revision, String> {
    let digits = text.parse::<Revision>().ok().filter(|_| !text.starts_with('+'));
    digits.ok_or_else(|| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

/// Returns the refusal for a revision that has not been reached yet.
pub(super) fn revision_too_large(asked: Revision, current: Revision) -> Status {
    Status::timeout(format!("Too large resource version: {asked}, current: {current}"))
        .caused("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1)
}
