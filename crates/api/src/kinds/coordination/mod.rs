//! The kind of `coordination.k8s.io`.

pub(crate) mod lease;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&lease::LEASE];
