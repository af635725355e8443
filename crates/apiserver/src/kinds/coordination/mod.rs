//! The kind of `coordination.k8s.io`.

pub(crate) mod lease;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&lease::LEASE];
