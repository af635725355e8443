//! Leases: an operator whose lease has lapsed does not act, and no other one acts in its place.

use homeostat_core::write_history::OperatorJournal;

use super::Finding;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::leases::{lapsed_since, operator_of};
use crate::times;

/// Finds operators that should act on these objects (they manage a part of them or the definition of their kind) and
/// whose lease has lapsed.
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
