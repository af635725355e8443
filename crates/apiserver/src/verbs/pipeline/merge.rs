//! Merges a write through a subresource into the stored object.

use homeostat_api::kinds::subresource;
use homeostat_api::object::meta;
use serde_json::Value;

use crate::verbs::AuthorizedRequest;

/// Returns the new object: for a subresource, its own part from the request and the rest from the stored object. Keeps
/// the request's uid and resourceVersion for the preconditions.
pub(super) fn part(call: &AuthorizedRequest, old: &Value, new: Value) -> Value {
    let merge = match call.resource.declaration() {
        Some(kind) => kind.subresource(&call.path.subresource).and_then(|part| part.merge),
        None if call.path.subresource == "status" => Some(subresource::status as _),
        None => None,
    };
    let Some(merge) = merge else { return new };
    let seen = ["uid", "resourceVersion"].map(|field| (field, new["metadata"].get(field).cloned()));
    let mut object = merge(&call.resource, old, new, &call.backend.clock);
    for (field, value) in seen {
        meta::set(&mut object, field, value);
    }
    object
}
