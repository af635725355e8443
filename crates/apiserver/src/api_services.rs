//! Maintains one APIService for each served group and version.
//!
//! The APIServices of built-in groups are written at startup with the other default objects; those of custom groups
//! follow their definitions. An APIService that is deleted while its version is served is re-created. (Kubernetes does
//! this only for custom groups: a deleted built-in APIService hides its version from clients until the next start,
//! which no user wants.) APIServices that users register for their own servers are left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_api::discovery::{DiscoveryDocuments, MANAGED_LABEL};
use homeostat_api::kinds::apiregistration::api_service::API_SERVICE;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use homeostat_store::{Entry, Error as StoreError, Op};
use serde_json::Value;

use crate::backend::{Backend, commit_refusal};
use crate::new_object_metadata::stamp_new;
use crate::stored::encode;

/// The storage of APIServices.
const STORAGE: ResourceIdentity<'static> = API_SERVICE.storage();
/// The value of the label on APIServices that are created and deleted with their version.
const FOLLOWS_VERSION: &str = "true";

/// The write that creates or deletes one APIService.
pub(crate) struct ApiServiceChange {
    pub(crate) key: Key,
    /// The stored entry, if there is one.
    pub(crate) old: Option<Arc<Entry>>,
    pub(crate) op: Op,
}

/// Creates the missing APIServices and deletes those whose version is no longer served.
pub(crate) async fn sync(backend: &Backend) -> Result<(), Status> {
    for ApiServiceChange { key, old, op } in pending_changes(backend) {
        match backend.commit(key, old.as_ref(), op).await {
            // Another write came first. The notice about the next definition triggers another check.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
    Ok(())
}

/// Returns the changes to make: APIServices to create, and APIServices to delete because their version is gone.
pub(crate) fn pending_changes(backend: &Backend) -> Vec<ApiServiceChange> {
    let table = backend.registry.table();
    let row = table.built_in(&API_SERVICE);
    let mut wanted = DiscoveryDocuments::new(&table.rows)
        .api_services()
        .into_iter()
        .map(|service| (meta::name(&service).to_owned(), service))
        .collect::<BTreeMap<_, _>>();
    let mut changes = Vec::new();
    for entry in backend.store.snapshot().range(&STORAGE.prefix(), "") {
        let is_wanted = wanted.remove(entry.key.name()).is_some();
        if !is_wanted && follows_version(&encode::parse_entry(entry)) {
            let (key, old) = (entry.key.clone(), Some(Arc::clone(entry)));
            changes.push(ApiServiceChange { key, old, op: Op::Delete });
        }
    }
    for (name, mut service) in wanted {
        stamp_new(backend, row, "", &mut service);
        service["status"]["conditions"][0]["lastTransitionTime"] = backend.now_text().into();
        let op = Op::Put(encode::encode_stored_version(row, &service));
        changes.push(ApiServiceChange { key: STORAGE.key("", &name), old: None, op });
    }
    changes
}

fn follows_version(service: &Value) -> bool {
    service["metadata"]["labels"][MANAGED_LABEL] == FOLLOWS_VERSION
}
