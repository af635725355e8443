//! Delete collection: every object a list would give, one by one.

use super::delete::{DeleteOptions, remove};
use super::list::Chosen;
use super::{Answer, Call};
use crate::status::Status;

/// Deletes what a list with the same options would show, and answers with that list: the objects as they were.
pub(super) async fn delete_collection(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    if call.resource.namespaced && call.path.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let chosen = Chosen::to_delete(call)?;
    let options = DeleteOptions::of(call, body)?;
    for key in chosen.entries.iter().map(|entry| &entry.key) {
        match remove(&call.backend, &call.resource, key.namespace(), key.name(), &options).await {
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    chosen.answer(call).map(|answer| answer.warned(options.warnings(&call.resource)))
}
