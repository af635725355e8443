//! The kind of `scheduling.k8s.io`.

pub mod priority_class;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&priority_class::PRIORITY_CLASS];
