//! Changes that the server itself makes to stored objects: removing a finalizer or an owner, setting a condition.

use homeostat_api::resource::Resource;
use homeostat_api::resource::deletion;
use homeostat_api::status::Status;
use homeostat_core::Key;
use homeostat_store::{Error as StoreError, Op};
use serde_json::Value;

use crate::backend::{Backend, commit_refusal};
use crate::stored::convert;
use crate::stored::encode;

/// Changes the object under `key` with `change`, if it exists. Deletes a marked object that nothing holds any more.
pub(crate) async fn rewrite(
    backend: &Backend,
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
            let value = encode::encode(resource, &object);
            if encode::is_same(entry, &value) {
                return Ok(());
            }
            Op::Put(value)
        };
        match backend.commit(key.clone(), Some(entry), op).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
}
