//! The kind that defines other kinds, in the group `apiextensions.k8s.io`.

pub mod custom_resource_definition;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&custom_resource_definition::CUSTOM_RESOURCE_DEFINITION];
