//! The kind of `node.k8s.io`.

pub(crate) mod runtime_class;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&runtime_class::RUNTIME_CLASS];
