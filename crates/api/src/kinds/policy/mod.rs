//! The kind of `policy`.

pub mod pod_disruption_budget;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&pod_disruption_budget::POD_DISRUPTION_BUDGET];
