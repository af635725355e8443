//! Creates the account of Pods that do not name one. Every namespace has one, created by the background task for
//! namespaces, or by admission if a Pod is created first.

use homeostat_api::kinds::core::service_account::SERVICE_ACCOUNT;
use homeostat_api::object::meta;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::status::Status;
use homeostat_store::{Error as StoreError, Op};
use serde_json::{Value, json};

use crate::backend::{Backend, commit_refusal, key_of};
use crate::new_object_metadata::stamp_new;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// Creates the account of Pods that do not name one.
pub(crate) async fn create_default_account(backend: &Backend, namespace: &str) -> Result<(), Status> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    ensure_object(backend, namespace, &SERVICE_ACCOUNT, account).await
}

/// Creates an object in a namespace if it does not exist.
pub(crate) async fn ensure_object(
    backend: &Backend,
    namespace: &str,
    kind: &BuiltInKind,
    mut object: Value,
) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.built_in(kind);
    let key = key_of(resource, namespace, meta::name(&object));
    if backend.store.snapshot().get(&key).is_some() {
        return Ok(());
    }
    stamp_new(backend, resource, namespace, &mut object);
    match backend.commit(key, None, Op::Put(encode::encode_stored_version(resource, &object))).await {
        Ok(committed) => {
            let after = committed.entries.first().and_then(Option::as_ref);
            backend.writes.record_own(ServerTask::Namespaces, resource, (None, after), backend.clock.now());
            Ok(())
        }
        Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(commit_refusal(&error)),
    }
}
