//! What is wrong with an object, per built-in kind, in the words of the real server.
//!
//! **Invariant:** runs on defaulted and prepared objects and changes nothing. Metadata every kind has is judged
//! elsewhere, and so are types and unknown fields; what is here is what Kubernetes writes as code. Rare corners
//! (Windows, profiles, most volume sources) are deliberately not judged.

pub(super) mod access;
pub(super) mod affinity;
pub(super) mod at;
pub(super) mod claims;
pub(super) mod container;
pub(super) mod counts;
pub(super) mod downward;
pub(super) mod pod;
pub(super) mod resources;
pub(super) mod security;
pub(super) mod selector;
pub(super) mod volume;
pub(super) mod workload;

use serde_json::Value;

pub(crate) use self::access::access;
pub(crate) use self::at::At;
use super::declaration::Kind;
use crate::field::Errors;

/// Complains about an object.
pub(crate) type Check = fn(&At<'_>, &mut Errors);
/// Complains about a change from the stored object.
pub(crate) type ChangeCheck = fn(&At<'_>, &Value, &mut Errors);

/// The complaints about a new object, in the version its client speaks.
pub(crate) fn validate_create(kind: &Kind, object: &Value) -> Errors {
    let object = kind.judged(object);
    let mut errors = Errors::new();
    if let Some(check) = kind.validate_create.or(kind.validate) {
        check(&At::root(&object), &mut errors);
    }
    errors
}

/// The complaints about an object changed through its main endpoint (an empty `subresource`) or one below.
pub(crate) fn validate_update(kind: &Kind, subresource: &str, new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (new, old) = (kind.judged(new), kind.judged(old));
    let root = At::root(&new);
    let on_change = match subresource {
        "" | "scale" => kind.validate_update,
        "status" => kind.validate_status,
        // Binding and evicting are judged where they are done.
        name => kind.part(name).and_then(|part| part.validate),
    };
    if let Some(check) = on_change {
        check(&root, &old, &mut errors);
    }
    if let ("" | "scale", Some(check)) = (subresource, kind.validate) {
        check(&root, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests;
