//! The kind of `node.k8s.io`.

pub mod runtime_class;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&runtime_class::RUNTIME_CLASS];
