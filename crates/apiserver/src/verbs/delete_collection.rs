//! Delete collection: every object that matches, one by one.

use super::delete::{DeleteOptions, Removed, remove};
use super::list::number;
use super::select::Selection;
use super::{Answer, Call};
use crate::convert;
use crate::status::Status;
use crate::table::ListMeta;

/// Deletes what the selectors match, at most as many as `limit` says; answers with the list of it, as it was.
pub(super) async fn delete_collection(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = DeleteOptions::of(call, body)?;
    if call.resource.namespaced && call.path.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let selection = Selection::of(call)?;
    let limit = usize::try_from(number(call.query.get("limit"))?).unwrap_or(0);
    let limit = if limit == 0 { usize::MAX } else { limit };
    let snapshot = call.backend.store.snapshot();
    let prefix = call.prefix();
    let mut removed = Vec::new();
    for entry in snapshot.range(&prefix, "").filter(|entry| selection.matches(entry)).take(limit) {
        let (namespace, name) = (entry.key.namespace(), entry.key.name());
        match remove(&call.backend, &call.resource, namespace, name, &options).await {
            Ok(Removed::Imagined(object)) => removed.push(object),
            Ok(Removed::Gone(entry, _) | Removed::Marked(entry)) => {
                removed.push(convert::decode(&call.resource, &entry));
            }
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let revision = call.backend.store.snapshot().revision().to_string();
    Answer::list(call, removed, &ListMeta { resource_version: &revision, ..ListMeta::default() })
}
