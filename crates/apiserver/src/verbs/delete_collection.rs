//! Implements delete collection: deletes every object that a list would return, one by one.

use homeostat_api::status::Status;

use super::delete::{DeleteOptions, remove_admitted};
use super::list::SelectedEntries;
use super::{Answer, AuthorizedRequest};

/// Deletes the objects that a list with the same options would return, and responds with that list, showing their last
/// state.
pub(super) async fn delete_collection(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    if call.resource.namespaced && call.path.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let chosen = SelectedEntries::to_delete(call).await?;
    let options = DeleteOptions::parse(call, body)?;
    for key in chosen.entries.iter().map(|entry| &entry.key) {
        match remove_admitted(call, key.namespace(), key.name(), &options).await {
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    chosen.answer(call).map(|answer| answer.warned(options.warnings(&call.resource)))
}
