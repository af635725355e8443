//! Changes the server itself makes to stored objects: a finalizer taken off, an owner forgotten, a condition set.

use homeostat_core::Key;
use homeostat_store::{Error as StoreError, Op};
use serde_json::Value;

use crate::backend::{Backend, refusal};
use crate::convert;
use crate::kinds::deletion;
use crate::object::encode;
use crate::resource::Resource;
use crate::status::Status;

/// Changes the object under `key` with `change`, if it is there. A dying object that nothing holds any more goes.
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
            Err(error) => return Err(refusal(&error)),
        }
    }
}
