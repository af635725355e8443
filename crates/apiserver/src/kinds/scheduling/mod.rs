//! The kind of `scheduling.k8s.io`.

pub(crate) mod priority_class;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&priority_class::PRIORITY_CLASS];
