//! Performs changes that the server itself makes to stored objects: removing a finalizer or an owner, setting a
//! condition.

use homeostat_api::resource::Resource;
use homeostat_api::resource::deletion;
use homeostat_api::status::Status;
use homeostat_core::Key;
use homeostat_store::{Error as StoreError, Op};
use serde_json::Value;

use crate::backend::{Backend, commit_refusal};
use crate::stored::convert;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// Changes the object under `key` with `change`, if it exists, and records in the history that this task did so.
/// Deletes an object that is marked for deletion and no longer held back by anything.
pub(crate) async fn update_stored_object(
    (backend, task): (&Backend, ServerTask),
    resource: &Resource,
    key: &Key,
    change: impl Fn(&mut Value) + Send + Sync,
) -> Result<(), Status> {
    loop {
        let snapshot = backend.store.snapshot();
        let Some(entry) = snapshot.get(key) else { return Ok(()) };
        let mut object = convert::decode_stored(resource, entry);
        change(&mut object);
        let op = if deletion::may_go(resource, &object) {
            Op::Delete
        } else {
            let value = encode::encode_stored_version(resource, &object);
            if encode::is_same(entry, &value) {
                return Ok(());
            }
            Op::Put(value)
        };
        match backend.commit(key.clone(), Some(entry), op).await {
            Ok(committed) => {
                let after = committed.entries.first().and_then(Option::as_ref);
                backend.writes.record_own(task, resource, (Some(entry), after), backend.clock.now());
                return Ok(());
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
}
