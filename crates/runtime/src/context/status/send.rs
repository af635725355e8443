//! Sends a status change: a single request suffices if the cache is right about the object; otherwise the object is
//! read and the change is tried again.
//!
//! Why a JSON patch with tests, rather than another kind of request? A merge patch replaces whole lists, so it needs
//! everyone's conditions, including fields that our types may not know, and a resourceVersion that every other writer
//! changes. Server-side apply works by entry only if a definition declares the list as a map, which most do not. A
//! strategic merge patch exists for Kubernetes' own kinds only. A JSON patch touches only our entries on every kind,
//! and its tests fail only if something relevant has changed.
//!
//! **Invariant:** nothing is sent if nothing would change, and no other writer's data is ever part of a request.

use homeostat_core::journal::Verb;
use homeostat_core::{FieldDiff, Key};

use super::change::StatusChange;
use super::diff::operations_diff;
use super::json_patch::StatusBasis;
use crate::cache::WritingRun;
use crate::context::json_requests::{JsonPatch, is_stale};
use crate::error::Error;
use crate::fence::TenureClaim;
use crate::request::Decode;
use crate::shared::ControllerShared;

/// The maximum number of attempts for one change: losing to other writers this often means competing with a loop, and
/// the reconcile's own backoff is then the better pause.
const TRIES_MAX: usize = 5;

/// The result of a change.
pub(crate) enum StatusWriteOutcome<T> {
    /// It was sent; holds the resulting object and the changes.
    Done(T, FieldDiff),
    /// The object already has this status.
    Already,
    /// The object is gone, or its kind has no status.
    Gone,
}

impl ControllerShared {
    /// Changes the status of the object in the snapshot, and records any failure.
    pub(crate) async fn change_status<T>(
        &self,
        key: &Key,
        claim: &TenureClaim,
        change: &StatusChange,
        mut snapshot: StatusBasis,
        decode: Decode<T>,
    ) -> Result<StatusWriteOutcome<T>, Error> {
        let writer = WritingRun { source: self.source.clone(), object: key.clone() };
        let _writing = self.cache.writing(key, writer);
        for tries in 1.. {
            let operations = change.operations(&snapshot, self.operator.clock.now());
            if operations.is_empty() {
                return Ok(StatusWriteOutcome::Already);
            }
            self.refuse_if_deposed(claim, key, Verb::Status, key)?;
            let diff = operations_diff(key, &snapshot, &operations);
            let patch = JsonPatch { verb: "write the status of", subresource: Some("status"), operations };
            let refusal = match self.send_patch(key, patch, decode).await {
                Ok(object) => return Ok(StatusWriteOutcome::Done(object, diff)),
                Err(error) if error.is_not_found() => return Ok(StatusWriteOutcome::Gone),
                Err(error) if is_stale(&error) && tries < TRIES_MAX => error,
                Err(error) => return self.noting(key, Verb::Status, key, Err(error)),
            };
            let Some(newest) = self.read_whole(key).await? else { return Ok(StatusWriteOutcome::Gone) };
            let newest = StatusBasis::whole(newest);
            if newest.uid != snapshot.uid {
                return Ok(StatusWriteOutcome::Gone);
            }
            if snapshot.is_whole && newest == snapshot {
                // The server has the state that we know about and still refuses the change.
                return self.noting(key, Verb::Status, key, Err(refusal));
            }
            snapshot = newest;
        }
        unreachable!("the last try returns")
    }
}
