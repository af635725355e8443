//! Sending a change of a status: one request while the cache is right about the object, and otherwise a look at the object
//! and another try.
//!
//! Why a JSON patch with tests. A merge patch replaces lists whole, so it needs everybody's conditions, with fields that
//! our types may not know, and a resourceVersion that every other writer moves. Server-side apply goes by entry only where
//! a definition declares the list as a map, which most do not. A strategic merge patch exists for Kubernetes' own kinds
//! only. A JSON patch touches our entries alone on every kind, and its tests fail only when what matters has changed.
//!
//! **Invariant:** nothing is sent when nothing would change, and nothing of another writer is ever part of a request.

use homeostat_core::Key;
use homeostat_core::journal::Verb;

use super::change::StatusChange;
use super::operations::Snapshot;
use crate::cache::Writer;
use crate::context::raw::{JsonPatch, is_stale};
use crate::engine::Engine;
use crate::error::Error;
use crate::fence::Claim;
use crate::request::Decode;

/// Requests for one change: whoever loses this often against other writers loses against a loop, and the reconcile's own
/// backoff is the better pause.
const TRIES_MAX: usize = 5;

/// What came of a change.
pub(crate) enum Written<T> {
    /// It was sent, and this is the object now.
    Done(T),
    /// The object says so already.
    Already,
    /// The object is gone, or its kind has no status.
    Gone,
}

impl Engine {
    /// Makes a change to the status of the object that the snapshot shows, and notes what came of it.
    pub(crate) async fn change_status<T>(
        &self,
        key: &Key,
        claim: &Claim,
        change: &StatusChange,
        mut snapshot: Snapshot,
        decode: Decode<T>,
    ) -> Result<Written<T>, Error> {
        let writer = Writer { source: self.source.clone(), object: key.clone() };
        let _writing = self.cache.writing(key, writer);
        for tries in 1.. {
            let operations = change.operations(&snapshot, self.shared.clock.now());
            if operations.is_empty() {
                return Ok(Written::Already);
            }
            self.admit(claim, key, Verb::Status, key)?;
            let patch = JsonPatch { verb: "write the status of", subresource: Some("status"), operations };
            let refusal = match self.send_patch(key, patch, decode).await {
                Ok(object) => return Ok(Written::Done(object)),
                Err(error) if error.is_not_found() => return Ok(Written::Gone),
                Err(error) if is_stale(&error) && tries < TRIES_MAX => error,
                Err(error) => return self.noting(key, Verb::Status, key, Err(error)),
            };
            let Some(newest) = self.read_whole(key).await? else { return Ok(Written::Gone) };
            let newest = Snapshot::whole(newest);
            if newest.uid != snapshot.uid {
                return Ok(Written::Gone);
            }
            if snapshot.is_whole && newest == snapshot {
                // The server knows what we know, and does not want what we say.
                return self.noting(key, Verb::Status, key, Err(refusal));
            }
            snapshot = newest;
        }
        unreachable!("the last try returns")
    }
}
