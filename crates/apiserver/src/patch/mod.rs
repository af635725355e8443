//! Every way to change an object by describing the change: one patch type per file, pure functions over JSON values.
//!
//! **Invariant:** nothing here reads or writes the store. A patch is parsed once and applied as often as the write
//! is retried. Decoding bytes, defaulting and validation of the result belong to the verbs.

pub mod json;
pub mod merge;

use serde_json::Value;

use crate::status::Status;

/// The refusal of a patch that is no object, in the words of Go's decoder.
fn not_an_object(prefix: &str, value: &Value) -> Status {
    let found = type_name(value);
    Status::bad_request(format!(
        "{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

/// What Go's decoder calls the type of a value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
