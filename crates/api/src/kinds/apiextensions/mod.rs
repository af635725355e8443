//! The kind that defines kinds, of `apiextensions.k8s.io`.

pub mod custom_resource_definition;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&custom_resource_definition::CUSTOM_RESOURCE_DEFINITION];
