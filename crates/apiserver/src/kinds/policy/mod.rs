//! The kind of `policy`.

pub(crate) mod pod_disruption_budget;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&pod_disruption_budget::POD_DISRUPTION_BUDGET];
