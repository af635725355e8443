//! The kind of `discovery.k8s.io`.

pub(crate) mod endpoint_slice;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&endpoint_slice::ENDPOINT_SLICE];
