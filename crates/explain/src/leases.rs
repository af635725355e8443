//! Leases of operators: which operator a lease belongs to, and when it lapsed. `findings::lease` and `state` judge what
//! that means.
//!
//! **Invariant:** a lease without a term never lapses.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The label by which an operator marks its leases.
const OPERATOR_LABEL: &str = "homeostat.dev/operator";

/// Returns the operator that a lease belongs to.
pub(crate) fn operator_of(lease: &Value) -> Option<&str> {
    lease["metadata"]["labels"][OPERATOR_LABEL].as_str().or_else(|| lease["metadata"]["name"].as_str())
}

/// Returns when a lease lapsed; `None` if it has not. A lease without a term never lapses.
pub(crate) fn lapsed_since(lease: &Value, now: Timestamp) -> Option<Timestamp> {
    let spec = &lease["spec"];
    let seconds = spec["leaseDurationSeconds"].as_i64()?;
    let renewed: Timestamp = spec["renewTime"].as_str()?.parse().ok()?;
    let end = renewed.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    (end < now).then_some(end)
}
