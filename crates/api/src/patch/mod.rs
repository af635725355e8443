//! Implements patches as pure functions on JSON values, with one patch type per file.
//!
//! **Invariant:** nothing here reads or writes the store. A patch is parsed once and applied as often as the write is
//! retried. The verbs decode the bytes, and default and validate the result.

pub mod apply;
pub mod go_format;
pub mod json;
pub mod merge;
pub mod strategic;
mod work_budget;

use serde_json::Value;

use crate::schema::{ListType, MergeRules, PatchStrategy};
use crate::status::Status;

/// How a field merges if the schema does not declare it.
static UNDECLARED: MergeRules = MergeRules {
    list: ListType::Atomic,
    atomic_map: false,
    patch: PatchStrategy { merge: false, replace: false, retain_keys: false },
    patch_key: None,
};

/// Returns the error for a patch that is not an object, with the message that Go's decoder gives.
fn not_an_object(prefix: &str, value: &Value) -> Status {
    let found = go_format::json_type_of(value);
    Status::bad_request(format!(
        "{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

#[cfg(test)]
mod test_schemas;
