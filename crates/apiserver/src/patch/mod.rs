//! Every way to change an object by describing the change: one patch type per file, pure functions over JSON values.
//!
//! **Invariant:** nothing here reads or writes the store. A patch is parsed once and applied as often as the write
//! is retried. Decoding bytes, defaulting and validation of the result belong to the verbs.

pub mod go;
pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

use crate::status::Status;

/// The refusal of a patch that is no object, in the words of Go's decoder.
fn not_an_object(prefix: &str, value: &Value) -> Status {
    let found = go::json_type_of(value);
    Status::bad_request(format!(
        "{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

#[cfg(test)]
mod shape;
