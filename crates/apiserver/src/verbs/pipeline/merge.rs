//! What a write through a subresource makes of the stored object.

use serde_json::Value;

use crate::kinds::subresource;
use crate::object::meta;
use crate::verbs::Call;

/// Returns the new object: of a subresource its own part and nothing else; the stored object gives the rest. What the
/// client saw stays, for the preconditions.
pub(super) fn part(call: &Call, old: &Value, new: Value) -> Value {
    let merge = match call.resource.declaration() {
        Some(kind) => kind.part(&call.path.subresource).and_then(|part| part.merge),
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
