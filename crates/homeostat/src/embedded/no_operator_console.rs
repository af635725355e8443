//! Stands in for `operator_console.rs` without the feature `console`: operators have no console.
//!
//! The function has the same signature, so that `run` calls it either way. An operator that is built without the
//! feature contains no part of the console.

use homeostat_runtime::Operator;

/// Returns the operator unchanged.
pub(super) fn add_console(operator: Operator) -> Operator {
    operator
}
