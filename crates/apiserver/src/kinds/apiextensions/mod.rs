//! The kind that defines kinds, of `apiextensions.k8s.io`.

pub(crate) mod custom_resource_definition;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&custom_resource_definition::CUSTOM_RESOURCE_DEFINITION];
