//! The kind of `discovery.k8s.io`.

pub mod endpoint_slice;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&endpoint_slice::ENDPOINT_SLICE];
