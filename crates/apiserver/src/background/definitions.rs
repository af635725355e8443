//! Handles custom resource definitions: establishes a definition that was written but not established (its writer
//! disconnected, or the process exited), and deletes the objects of a definition that is being deleted.

use homeostat_api::crd::{STORAGE, bare_row, mark_emptied, mark_emptying};
use homeostat_api::kinds::apiextensions::custom_resource_definition::{
    CLEANUP_FINALIZER, CUSTOM_RESOURCE_DEFINITION,
};
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::Prefix;

use super::bulk_deletion::remove_under;
use crate::backend::Backend;
use crate::definition_lifecycle;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// Reconciles a definition.
pub(super) async fn reconcile(backend: &Backend, name: &str) -> Result<(), Status> {
    let key = STORAGE.key("", name);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else {
        return definition_lifecycle::reconsider_names(backend).await;
    };
    let definition = encode::parse_entry(entry);
    if !meta::is_deleting(&definition) {
        return definition_lifecycle::establish(backend, &key).await;
    }
    if !meta::has_finalizer(&definition, CLEANUP_FINALIZER) {
        return Ok(());
    }
    let resource = bare_row(&definition);
    let all = resource.storage().prefix();
    backend.notices.set_resource_ending(&all, Some(name));
    let table = backend.registry.table();
    let definitions = table.built_in(&CUSTOM_RESOURCE_DEFINITION);
    let now = backend.now_text();
    update_stored_object((backend, ServerTask::Definitions), definitions, &key, |object| {
        mark_emptying(object, &now);
    })
    .await?;
    if remove_all(backend, &resource, &all).await? {
        backend.notices.set_resource_ending(&all, None);
        update_stored_object((backend, ServerTask::Definitions), definitions, &key, |object| {
            mark_emptied(object, &now);
        })
        .await?;
    }
    Ok(())
}

/// Deletes every object of a resource; returns whether all are gone.
async fn remove_all(backend: &Backend, resource: &Resource, prefix: &Prefix) -> Result<bool, Status> {
    remove_under((backend, ServerTask::Definitions), resource, prefix).await?;
    let is_empty = backend.store.snapshot().range(prefix, "").next().is_none();
    Ok(is_empty)
}
