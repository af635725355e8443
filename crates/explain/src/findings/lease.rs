//! Leases: an operator whose lease has lapsed does not act, and none acts in its place.

use homeostat_core::write_history::OperatorJournal;
use jiff::Timestamp;
use serde_json::Value;

use super::Finding;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::times;

/// The label by which an operator marks its leases.
const OPERATOR_LABEL: &str = "homeostat.dev/operator";

/// Finds operators that should act on these objects and whose lease has lapsed: those that manage a part of them, or
/// the definition of their kind.
pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let lapsed = evidence.leases.iter().filter_map(|lease| {
        let operator = operator_of(lease)?;
        let since = lapsed_since(lease, evidence.now)?;
        let is_alive = |journal: &OperatorJournal| journal.operator == operator;
        let about = evidence.below().find(|object| {
            object.managers().any(|manager| manager == operator)
                || object.key == evidence.subject
                    && evidence.definition_managers.iter().any(|name| name == operator)
        })?;
        if evidence.journals.iter().any(is_alive) {
            return None;
        }
        let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        let holder = holder.map(|holder| format!(" (last held by {holder})")).unwrap_or_default();
        let text = format!(
            "has nobody who acts on it: the lease of the operator {operator}{holder} lapsed {}",
            times::both(evidence.now, since)
        );
        Some(Finding::new(CauseCode::LapsedLease, &about.key, text))
    });
    lapsed.collect()
}

/// Returns the operator that a lease belongs to.
pub(super) fn operator_of(lease: &Value) -> Option<&str> {
    lease["metadata"]["labels"][OPERATOR_LABEL].as_str().or_else(|| lease["metadata"]["name"].as_str())
}

/// Returns since when a lease has lapsed; `None` if it has not. One without a term never does.
pub(super) fn lapsed_since(lease: &Value, now: Timestamp) -> Option<Timestamp> {
    let spec = &lease["spec"];
    let seconds = spec["leaseDurationSeconds"].as_i64()?;
    let renewed: Timestamp = spec["renewTime"].as_str()?.parse().ok()?;
    let end = renewed.checked_add(jiff::SignedDuration::from_secs(seconds)).ok()?;
    (end < now).then_some(end)
}
