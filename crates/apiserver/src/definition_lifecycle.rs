//! Handles the life cycle of a definition: establishes it immediately, and checks rejected names again when others
//! become free.

use homeostat_api::crd::{STORAGE, TakenNames, accept_names, condition_is};
use homeostat_api::kinds::apiextensions::custom_resource_definition::CUSTOM_RESOURCE_DEFINITION;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::Key;

use crate::backend::Backend;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// Accepts the names of a stored definition and establishes it, as Kubernetes' naming and establishing controllers do,
/// but before the client gets the response to the write that created it, so that the next request finds the kind
/// served.
pub(crate) async fn establish(backend: &Backend, key: &Key) -> Result<(), Status> {
    let table = backend.registry.table();
    let resource = table.built_in(&CUSTOM_RESOURCE_DEFINITION);
    update_stored_object((backend, ServerTask::Definitions), resource, key, |definition| {
        if meta::is_deleting(definition) {
            return;
        }
        let snapshot = backend.store.snapshot();
        let mut taken = TakenNames::by_built_in(definition, &table.rows);
        for entry in snapshot.range(&STORAGE.prefix(), "") {
            taken.add(definition, entry.key.name(), || encode::parse_entry(entry));
        }
        accept_names(definition, &taken, &backend.now_text());
    })
    .await
}

/// Checks all names again. Names of a definition that is gone may be free now.
pub(crate) async fn reconsider_names(backend: &Backend) -> Result<(), Status> {
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&STORAGE.prefix(), "") {
        if condition_is(&encode::parse_entry(entry), "NamesAccepted", "False") {
            establish(backend, &entry.key).await?;
        }
    }
    Ok(())
}
