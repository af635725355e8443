//! Every way to change an object by describing the change: one patch type per file, pure functions over JSON values.
//!
//! **Invariant:** nothing here reads or writes the store. A patch is parsed once and applied as often as the write
//! is retried. Decoding bytes, defaulting and validation of the result belong to the verbs.

pub mod apply;
pub mod go;
pub mod json;
pub mod merge;
pub mod strategic;
mod work;

use serde_json::Value;

use crate::schema::{ListType, Merge, PatchStrategy};
use crate::status::Status;

/// How a field merges of which the schema says nothing.
static UNDECLARED: Merge = Merge {
    list: ListType::Atomic,
    atomic_map: false,
    patch: PatchStrategy { merge: false, replace: false, retain_keys: false },
    patch_key: None,
};

/// The refusal of a patch that is no object, in the words of Go's decoder.
fn not_an_object(prefix: &str, value: &Value) -> Status {
    let found = go::json_type_of(value);
    Status::bad_request(format!(
        "{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

#[cfg(test)]
mod shape;
