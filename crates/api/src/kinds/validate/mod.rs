//! Validates objects of built-in kinds, with kube-apiserver's wording.
//!
//! **Invariant:** this runs on defaulted and prepared objects and changes nothing. Metadata, types and unknown fields
//! are checked elsewhere; the checks here are those that Kubernetes implements as code. Rare corners (Windows,
//! profiles, most volume sources) are deliberately not validated.

pub(super) mod access;
pub(super) mod affinity;
pub(super) mod claims;
pub(super) mod container;
pub(super) mod counts;
pub(super) mod downward;
pub(super) mod network_range;
pub(super) mod pod;
pub(super) mod resources;
pub(super) mod security;
pub(super) mod selector;
pub(super) mod volume;
pub(super) mod workload;

use serde_json::Value;

pub use self::access::access;
use crate::field::Errors;
use crate::resource::declaration::BuiltInKind;
pub(crate) use crate::resource::value_at::ValueAt;

/// Validates a new object, in the version its client uses.
pub fn validate_create(kind: &BuiltInKind, object: &Value) -> Errors {
    let object = kind.validated_form(object);
    let mut errors = Errors::new();
    if let Some(check) = kind.validate_create.or(kind.validate) {
        check(&ValueAt::root(&object), &mut errors);
    }
    errors
}

/// Validates an object that was changed through its main endpoint (an empty `subresource`) or a subresource.
pub fn validate_update(kind: &BuiltInKind, subresource: &str, new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (new, old) = (kind.validated_form(new), kind.validated_form(old));
    let root = ValueAt::root(&new);
    let on_change = match subresource {
        "" | "scale" => kind.validate_update,
        "status" => kind.validate_status,
        // Binding and eviction validate their own bodies.
        name => kind.subresource(name).and_then(|subresource| subresource.validate),
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
