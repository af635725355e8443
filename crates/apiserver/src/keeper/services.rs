//! The APIServices that stand for the served versions: one for each group and version, made and removed with it.
//!
//! Those of built-in groups are written at the start with everything else a cluster is born with; those of custom groups
//! follow their definitions. One that is deleted while its version is served is made again (Kubernetes does so only for
//! custom groups; a deleted built-in one takes its version from the clients until the next start, which nobody wants).
//! What a user registers for a server of their own is left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_store::{Entry, Error as StoreError, Op};
use serde_json::Value;

use crate::backend::{Backend, refusal};
use crate::discovery::{Documents, MANAGED_LABEL};
use crate::kinds::apiregistration::api_service::API_SERVICE;
use crate::object::{encode, meta};
use crate::status::Status;
use crate::storage::Storage;
use crate::verbs::stamp_new;

/// Where APIServices are kept.
const STORAGE: Storage<'static> = API_SERVICE.storage();
/// The label's value on those that come and go with their version.
const FOLLOWS: &str = "true";

/// One write: the key, what stands there, what to do.
type Change = (Key, Option<Arc<Entry>>, Op);

/// Is this an APIService?
pub(super) fn is_api_service(key: &Key) -> bool {
    Storage::of_key(key) == STORAGE
}

/// Makes the stored APIServices those of the served versions.
pub(super) async fn settle(backend: &Backend) -> Result<(), Status> {
    for (key, old, op) in changes(backend) {
        match backend.commit(key, old.as_ref(), op).await {
            // Somebody else wrote it meanwhile; the next definition's notice looks again.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(refusal(&error)),
        }
    }
    Ok(())
}

/// What is missing, and what stands for a version that is gone.
pub(crate) fn changes(backend: &Backend) -> Vec<Change> {
    let table = backend.registry.table();
    let row = table.of_declared(&API_SERVICE);
    let mut wanted = Documents::new(&table.rows)
        .api_services()
        .into_iter()
        .map(|service| (meta::name(&service).to_owned(), service))
        .collect::<BTreeMap<_, _>>();
    let mut changes = Vec::new();
    for entry in backend.store.snapshot().range(&STORAGE.prefix(), "") {
        let is_wanted = wanted.remove(entry.key.name()).is_some();
        if !is_wanted && follows(&encode::decode(entry)) {
            changes.push((entry.key.clone(), Some(Arc::clone(entry)), Op::Delete));
        }
    }
    for (name, mut service) in wanted {
        stamp_new(backend, row, "", &mut service);
        service["status"]["conditions"][0]["lastTransitionTime"] = backend.now_text().into();
        changes.push((STORAGE.key("", &name), None, Op::Put(encode::encode(row, &service))));
    }
    changes
}

fn follows(service: &Value) -> bool {
    service["metadata"]["labels"][MANAGED_LABEL] == FOLLOWS
}
